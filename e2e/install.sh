#!/usr/bin/env bash
# Installs berth on a new one-node cluster as a user does: the image, crds/, install/overlays/example-bridge/. Checks the
# installation and how its pods are confined. Checks that berth can be removed and installed again while pods run, that the
# node's mode can change from agent to direct and back, and that berth can be removed in the wrong order, too. Then installs
# install/overlays/direct/ on a new node, and removes berth in the right order. Needs root and build/image/berth.tar (make
# image). The last line is "N passed, N failed".
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cluster=$root/e2e/cluster
image=${BERTH_IMAGE_FILE:-$root/build/image/berth.tar}
work=$(mktemp -d "${TMPDIR:-/tmp}/berth-install.XXXXXX")
dir=$work/c
pods=$([[ ${BERTH_SWEEP-} == all ]] && echo 30 || echo 12) # at once; each costs 1 s of processor time
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"

# Called after a failed check, because nothing of the cluster is left after the suite.
show_state() {
  kubectl get pods -A -o wide
  kubectl get events -A --sort-by=.lastTimestamp -o custom-columns=AT:.lastTimestamp,OF:.involvedObject.name,SAYS:.message |
    tail -n 40 | cut -c 1-200
  kubectl logs -n berth-system -l app.kubernetes.io/name=berth --tail=20 --prefix
}

finish() {
  take_down "$dir"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

at_most() { # LIMIT COMMAND...: the command must print a whole number of at most LIMIT
  local limit=$1 got
  shift
  got=$("$@") || return 1
  [[ $got =~ ^[0-9]+$ ]] || { echo "no number: '$got'"; return 1; }
  ((got <= limit)) || { echo "$got, wanted at most $limit"; return 1; }
}

# Controllers must not run on workers, because their token has more rights than an agent's.
stay_off_workers() {
  local role=node-role.kubernetes.io/control-plane
  local -a controllers=(pods --namespace berth-system --selector app.kubernetes.io/component=controller)
  kubectl label node n1 "$role-" &&
    kubectl delete "${controllers[@]}" --wait=false --field-selector \
      "metadata.name=$(kubectl get "${controllers[@]}" -o 'jsonpath={.items[0].metadata.name}')" &&
    soon equals Pending kubectl get "${controllers[@]}" --field-selector status.phase=Pending -o 'jsonpath={.items[*].status.phase}' &&
    kubectl label node n1 "$role="
}
# Other service accounts cannot keep the leader from renewing its Lease.
lease_has_berths_queue() {
  local uid
  uid=$(kubectl get flowschema berth -o 'jsonpath={.metadata.uid}') || return 1
  kubectl get lease berth-controller --namespace berth-system --as system:serviceaccount:berth-system:berth-controller -v=8 2>&1 |
    grep -iF "flowschema-uid: $uid"
}
# Nothing may keep a person from draining the only control-plane node, although no controller can run elsewhere.
drains_only_control_plane() {
  kubectl drain n1 --pod-selector app.kubernetes.io/component=controller --ignore-daemonsets --delete-emptydir-data --timeout=60s
  local drained=$?
  kubectl uncordon n1 && return $drained
}
both_controllers() {
  kubectl wait --namespace berth-system --for=jsonpath='{.status.availableReplicas}'=2 deployment/berth-controller --timeout=60s
}

agent_metrics() { curl -sf --unix-socket "$dir/n1/run/berth/agent.sock" http://berth/metrics; }

# The programs have the metrics that the alerts use, and Prometheus understands metrics and alerts.
alerts_use_real_metrics() {
  local metric metrics pid promtool text
  promtool=$("$root/tools/setup.sh" linters)/promtool
  "$promtool" check rules "$root/install/alerts.yaml" && "$promtool" test rules "$root/e2e/alerts_test.yaml" || return 1
  agent_metrics >"$work/metrics.agent" || return 1
  for pid in $(pids_of berth-controller); do controller_metrics "$pid" >"$work/metrics.controller.$pid" || return 1; done
  for text in "$work"/metrics.*; do "$promtool" check metrics <"$text" || return 1; done
  metrics=$(grep -v '^#' "$root/install/alerts.yaml" | grep -oE 'berth_(agent|clock|controller|pool|node)_[a-z_]+' | sort -u) || return 1
  for metric in $metrics; do
    grep -qE "^$metric(\{| )" "$work"/metrics.* || { echo "no program says $metric"; return 1; }
  done
}

# --- What runs --------------------------------------------------------------------------------------------------------

apply_crds() {
  kubectl apply -k "$root/crds" &&
    kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s
}
install_berth() { kubectl apply -k "$root/install/overlays/example-bridge"; }

milliseconds() { local now=${EPOCHREALTIME/[.,]/}; echo $((now / 1000)); }

run_pods() { # NAME COUNT: starts COUNT pods and waits until all are Running
  kubectl create deployment "$1" --image="$BERTH_TEST_IMAGE" --replicas="$2" &&
    kubectl rollout status "deployment/$1" --timeout=180s
}

# Installs berth on a node that is not ready, and starts the first pod with an address. Writes the milliseconds to a file.
first_pod() {
  local begun
  begun=$(milliseconds)
  apply_crds && install_berth && kubectl apply -f "$root/install/overlays/example-bridge/pools.yaml" || return 1
  run_pods first 1 || return 1
  [[ $(addresses_of first) == 10.55.* ]] || { echo "address: $(addresses_of first)"; return 1; }
  echo $(($(milliseconds) - begun)) >"$work/first"
}

addresses_of() { # DEPLOYMENT: one line for each pod, sorted
  kubectl get pods -l "app=$1" -o jsonpath='{range .items[*]}{.status.podIP}{"\n"}{end}' | sort
}

status_of() { # PROGRAM FIELD: the different values of the field in the program's processes
  local pid
  for pid in $(pids_of "$1"); do
    sed -nE "s/^$2:[[:space:]]*([^[:space:]]+).*/\1/p" "/proc/$pid/status"
  done | sort -un
}
largest() { status_of "$1" "$2" | tail -n 1; }

listens_nowhere() {
  local pids pid sockets
  pids="$(pids_of berth-agent) $(pids_of berth-controller)"
  equals 3 wc -w <<<"$pids" || return 1
  sockets=$(nsenter --net="$BERTH_NODE1_NETNS" ss -Hltnp) || return 1
  for pid in $pids; do
    if grep "pid=$pid," <<<"$sockets"; then return 1; fi
  done
}

# The init container adds one file, and does not change the files that were there.
plugin_is_added() {
  equals berth comm -13 "$work/plugins" <(ls "$BERTH_NODE1_CNI_BIN_DIR") &&
    (cd "$BERTH_NODE1_CNI_BIN_DIR" && sha256sum --quiet -c "$work/sums")
}

applies_again_unchanged() {
  local text
  text=$(install_berth) || return 1
  if grep -v 'unchanged$' <<<"$text"; then return 1; fi
}

# --- Away and back, under running pods --------------------------------------------------------------------------------

remove_berth() { kubectl delete -k "$root/install/overlays/example-bridge" --timeout=120s; }

keeps_addresses() { # DEPLOYMENT: succeeds if its pods have the addresses in the file
  equals "$(<"$work/$1.addresses")" addresses_of "$1"
}

no_address_twice() { # COUNT DEPLOYMENT...
  local count=$1 deployment all=""
  for deployment in "${@:2}"; do all+=$(addresses_of "$deployment")$'\n' || return 1; done
  equals "$count" grep -c . <<<"$all" && equals "" uniq -d < <(grep . <<<"$all" | sort)
}

comes_back() {
  install_berth && kubectl rollout status --namespace berth-system daemonset/berth-agent --timeout=120s
}

crds_and_objects_stay() {
  kubectl get ippool pods-v4 pods-v6 && equals $((pods + 1)) used pods-v4
}
used() { kubectl get ipblocks -o jsonpath="{range .items[?(@.spec.pool==\"$1\")]}{.used}{\"\n\"}{end}" | awk '{s += $1} END {print s + 0}'; }

# --- To berth-direct under running pods, and back -----------------------------------------------------------------------

# operations_commands FIRST LAST: prints the commands in docs/operations.md from the line that begins with FIRST to the line
# that begins with LAST.
operations_commands() {
  awk -v first="$1" -v last="$2" 'index($0, first) == 1 { here = 1 } here { print } here && index($0, last) == 1 { exit }' \
    "$root/docs/operations.md"
}
# Runs the loop twice: the second time the agent has retired already, and the loop must not complain.
goes_direct() {
  local loop commands
  loop=$(operations_commands "for pod in" "done")
  commands=$(operations_commands "kubectl delete -k install/agent" "  kubectl apply")
  [[ $(wc -l <<<"$loop") == 5 && $(wc -l <<<"$commands") == 2 ]] ||
    { echo "docs/operations.md has no commands: $loop $commands"; return 1; }
  all_are_retired "$loop" && soon all_are_retired "$loop" && (cd "$root" && bash -c "$commands") && is_direct &&
    refused kubectl get -k "$root/install/agent"
}
all_are_retired() { # LOOP
  local output
  output=$(bash -c "$1" 2>&1) || return 1
  [[ $output != *"not retired"* ]] || { echo "$output"; return 1; }
}
is_direct() {
  kubectl rollout status --namespace berth-system daemonset/berth-direct --timeout=60s &&
    equals direct cat "$dir/n1/lib/berth/mode"
}
goes_back() {
  local command
  command=$(operations_commands "kubectl -n berth-system delete daemonset/berth-direct" kubectl)
  [[ -n $command ]] || { echo "docs/operations.md has no command"; return 1; }
  bash -c "$command" && rm "$dir/n1/lib/berth/mode" && comes_back
}

ends() { kubectl delete deployment "$1" --wait=false && within 300 no_pods -l "app=$1"; }

# --- Removal in the wrong order, berth-direct, and the right order ----------------------------------------------------

no_pods() { equals "" kubectl get pods -o name "$@"; }
end_pods() { # if berth is removed, only the plugin `berth` itself can answer the DELs
  kubectl delete deployment --all --wait=false && within 300 no_pods
}

delete_pools_and_crds() {
  kubectl delete ippool --all --wait=false &&
    purge_as_told --wait=false
}
are_terminating() { # prints how many CRDs are terminating
  kubectl get crd -l app.kubernetes.io/name=berth -o json | jq '[.items[].metadata | select(.deletionTimestamp)] | length'
}
no_kind() { equals "" kubectl get crd -l app.kubernetes.io/name=berth -o name; }

# The CRDs that are left wait for their objects.
repeats_purge() {
  if purge_as_told --wait=false; then echo "it succeeded"; return 1; fi
  equals 3 are_terminating
}
nothing_comes_back() {
  kubectl apply -k "$root/crds" && kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s &&
    equals "" kubectl get ippools,ipblocks,ipspaces -o name
}

# Runs the commands of docs/install.md for this case.
mend() {
  local command
  command=$(awk '/^for kind in/, /^done/' "$root/docs/install.md")
  [[ -n $command ]] || { echo "docs/install.md has no command"; return 1; }
  bash -e -o pipefail -c "$command" && within 60 no_kind
}

# Prints the PIDs of plugin calls of the node's runtime whose program has been removed.
calls_under_way() {
  local exe node_mounts
  node_mounts=$(readlink "/proc/$BERTH_NODE1_MOUNTS_PID/ns/mnt") || return 1
  while read -r exe; do
    if [[ $(readlink "${exe%exe}ns/mnt") == "$node_mounts" ]]; then cut -d/ -f3 <<<"$exe"; fi
  done < <(find /proc/[0-9]*/exe -prune -lname "*/berth (deleted)" 2>/dev/null)
}

# Cleans the node as docs/install.md says: a DEL that still waits for an agent would create the queue again, and the node would
# then be in agent mode.
clean_node() {
  rm "$BERTH_NODE1_CNI_BIN_DIR/berth" "$BERTH_NODE1_CNI_CONF_DIR/10-berth.conflist" &&
    within 60 equals "" calls_under_way && rm -r "$dir/n1/lib/berth/"* "$dir/n1/run/berth/"*
}

install_direct() {
  apply_crds && kubectl apply -k "$root/install/overlays/direct" && kubectl apply -f "$root/install/overlays/example-bridge/pools.yaml" &&
    kubectl rollout status --namespace berth-system daemonset/berth-direct --timeout=60s &&
    kubectl wait --for=condition=Ready ippool --all --timeout=60s
}
# Writes the example's network, with the path of this kubelet's credentials, which is not the usual path.
network_of_direct() {
  printf 'kubeconfig %s\n' "$BERTH_NODE1_KUBECONFIG" >"$work/allowed-paths"
  install -m 644 "$work/allowed-paths" "$BERTH_NODE1_CNI_BIN_DIR/berth.allowed-paths"
  jq --arg kubeconfig "$BERTH_NODE1_KUBECONFIG" '.plugins[0].ipam.kubeconfig = $kubeconfig' \
    "$root/install/overlays/example-bridge/10-berth.conflist" >"$BERTH_NODE1_CNI_CONF_DIR/10-berth.conflist" &&
    kubectl wait --for=condition=Ready node/n1 --timeout=60s
}

remove_in_order() {
  end_pods && kubectl delete ippool,ipspace --all --timeout=60s &&
    kubectl delete -k "$root/install/overlays/direct" --timeout=60s &&
    purge_as_told && no_kind
}

[[ -r $image ]] || fail_early "there is no $image: run \"make image\" first"
"$cluster" up --dir "$dir" --nodes 1 --cni-conf none --image "$image" --audit || fail_early "no cluster"
eval "$("$cluster" env --dir "$dir")"
ls "$BERTH_NODE1_CNI_BIN_DIR" >"$work/plugins"
(cd "$BERTH_NODE1_CNI_BIN_DIR" && sha256sum ./*) >"$work/sums"

check "a node without berth is not ready" equals False kubectl get node n1 \
  -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
check "CRDs, berth, pools, a pod with an address" first_pod
[[ -z ${BERTH_ALONE:-} ]] || check "that takes at most 20 s" at_most 20000 cat "$work/first"
echo "      first pod after $(<"$work/first") ms"
check "both controllers become available" both_controllers
check "without control-plane nodes a controller waits" stay_off_workers
check "it runs when there is one" both_controllers
check "the only control-plane node can be drained" drains_only_control_plane
check "and both controllers come back" both_controllers
check "the Lease has berth's queue at the API server" lease_has_berths_queue
check "the plugin is beside the others, which are as they were" plugin_is_added
check "the agent has no capability" equals 0000000000000000 status_of berth-agent CapEff
check "nor can it get one" equals 1 status_of berth-agent NoNewPrivs
check "its system calls are filtered" equals 2 status_of berth-agent Seccomp
check "controllers are not root" equals 65532 status_of berth-controller Uid
check "nor have they a capability" equals 0000000000000000 status_of berth-controller CapEff
check "nobody listens on a port" listens_nowhere
check "applied again, nothing changes" applies_again_unchanged
check "alerts ask for what agents and controllers tell" alerts_use_real_metrics

check "$pods pods" run_pods old "$pods"
check "the agent stays under 30 MB" at_most 30000 largest berth-agent VmRSS
check "a controller stays under 40 MB" at_most 40000 largest berth-controller VmRSS
echo "      agent $(largest berth-agent VmRSS) kB, controller $(largest berth-controller VmRSS) kB"
addresses_of old >"$work/old.addresses"
check "each has an address of its own" equals "$pods" grep -c "^10[.]55[.]" < <(sort -u "$work/old.addresses")
check "berth is removed under them" remove_berth
check "the pods keep their addresses" keeps_addresses old
check "pools and blocks stay" crds_and_objects_stay
check "berth comes back" comes_back
check "$pods new pods" run_pods new "$pods"
check "the old ones keep their addresses" keeps_addresses old
check "no address is given twice" no_address_twice $((2 * pods + 1)) first old new

check "the agent retires, and berth-direct takes over" goes_direct
check "the node has a network of berth-direct's" network_of_direct
check "10 pods" run_pods more 10
check "pods of the agent's time end" ends new
check "the old ones keep their addresses" keeps_addresses old
check "an agent takes the node back" goes_back
check "$pods new pods" run_pods new "$pods"
check "the old ones keep their addresses" keeps_addresses old
check "no address is given twice" no_address_twice $((2 * pods + 11)) first old more new

check "berth is removed once more" remove_berth
check "pods end without it" end_pods
check "pools and CRDs are deleted" delete_pools_and_crds
check "which wait, since nobody lets blocks go" soon equals 3 are_terminating
check "also when somebody repeats the commands" repeats_purge
check "the command of docs/install.md lets them go" mend
check "and with them all that they held" nothing_comes_back

check "the node forgets berth" clean_node
check "berth-direct is installed" install_direct
check "the node's mode is direct" equals direct cat "$dir/n1/lib/berth/mode"
check "the node has a network" network_of_direct
check "10 pods" run_pods direct 10
check "they have addresses of berth" equals 10 eval "addresses_of direct | sort -u | grep -c '^10[.]55[.]'"
check "removed in order, nothing is left" remove_in_order
"$root/e2e/rights.sh" note "$dir" "$root/build/rights/install"
print_counts
