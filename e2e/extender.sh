#!/usr/bin/env bash
# Tests the scheduler extender of berth-controller on real nodes: pods without requests, a kube-scheduler with the setup of
# install/extender/README.md, more pods than addresses, Shared pools, a leader that dies, and no controller at all. Makes a cluster of two
# nodes for itself and takes it down. Ends with "N passed, N failed". Takes about three minutes. Needs root and
# build/image/berth.tar (make image).
#
#   e2e/extender.sh [BUILD_DIR [SCENARIO...]]     default: build, and all of them
#
# BERTH_SWEEP=all: also starts as many pods at once 20 times, which takes ten minutes more.
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cluster=$root/e2e/cluster
build=$(cd "${1:-$root/build}" && pwd -P)
image=${BERTH_IMAGE_FILE:-$build/image/berth.tar}
work=$(mktemp -d /tmp/berth-extender.XXXX)
dir=$work/cluster
component=$root/install/extender
started=() # processes of this suite
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"
# shellcheck source=counted_pods.sh
source "$root/e2e/counted_pods.sh"

[[ -r $image ]] || fail_early "there is no $image: run \"make image\" first"
for tool in curl jq openssl; do command -v $tool >/dev/null || fail_early "$tool is missing: apt-get install $tool"; done

finish() {
  ((failed == 0)) || cp -r --parents "$dir"/n?/pod-logs "$work" 2>/dev/null
  kill "${started[@]}" 2>/dev/null
  take_down "$dir"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Called after a failed check, because nothing of the cluster is left after the suite.
show_state() {
  kubectl get nodes -o json | jq -r '.items[] | "\(.metadata.name) \(.status.allocatable | with_entries(select(.key | startswith("ipam"))))"'
  kubectl get pods -A -o wide | cut -c 1-150
  kubectl get ippools,ipblocks
  kubectl get endpointslices -n berth-system
  kubectl get events -A --sort-by=.lastTimestamp -o custom-columns=AT:.lastTimestamp,OF:.involvedObject.name,WHY:.reason,SAYS:.message |
    tail -n 20 | cut -c 1-220
  tail -q -n 15 "$dir"/n?/pod-logs/berth-system_berth-controller*/berth/*.log
  tail -n 15 "$work/scheduler.log"
}

# --- The cluster ------------------------------------------------------------------------------------------------------

# commands NAME: prints the commands in the README's block NAME.
commands() { sed -n "/^\`\`\`sh $1\$/,/^\`\`\`\$/p" "$component/README.md" | grep -v '^```'; }

# Applies the kustomization of a user: an overlay, and the component.
apply_extender() {
  mkdir -p "$work/kustomized/mine" && ln -sfn "$root/install" "$work/kustomized/install" &&
    cat >"$work/kustomized/mine/kustomization.yaml" <<'END' && kubectl apply -k "$work/kustomized/mine"
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../install/overlays/example-bridge]
components: [../install/extender]
END
}

set_up() {
  "$cluster" up --dir "$dir" --nodes 2 --cni-conf none --image "$image" --audit || fail_early "no cluster"
  eval "$("$cluster" env --dir "$dir")"
  {
    kubectl apply -k "$root/crds" &&
      kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s &&
      kubectl apply -k "$root/install/overlays/example-bridge" &&
      mkdir "$work/tls" && (cd "$work/tls" && bash -euc "$(commands certificates)" && bash -euc "$(commands secret)") &&
      apply_extender &&
      pool pods-v4 "$pool_of_13" && pool pods-v6 '{"subnet": "2001:db8:55::/112", "gateway": "2001:db8:55::1"}' &&
      kubectl wait --for=condition=Ready node --all --timeout=120s &&
      kubectl -n berth-system rollout status deployment/berth-controller --timeout=120s &&
      soon has_endpoint
  } >"$work/install.log" 2>&1 || { cat "$work/install.log"; show_state; fail_early "berth is not installed"; }
}
pool_of_13='{"subnet": "10.55.0.0/28", "blockSize": 29, "gateway": "10.55.0.1"}'

endpoint() { kubectl -n berth-system get endpointslice berth-extender-4 -o jsonpath='{.endpoints[0].addresses[0]}'; }
has_endpoint() { [[ $(endpoint) ]]; }
leader() { kubectl get lease berth-controller -n berth-system -o jsonpath='{.spec.holderIdentity}'; }
other_leader_than() { local now; now=$(leader) && [[ $now && $now != "$1" ]]; }

# Starts kube-scheduler with the overlay's configuration, instead of the cluster's own kube-scheduler.
scheduler_asks_berth() {
  "$cluster" stop kube-scheduler --dir "$dir" || return 1
  python3 "$root/e2e/service_proxy.py" "$port" berth-system berth-extender-4 >"$work/proxy.log" 2>&1 &
  started+=($!)
  sed -e "s|CLUSTER_IP|127.0.0.1:$port|" -e "s|/etc/kubernetes/berth-extender/|$work/tls/|" \
    -e "s|/etc/kubernetes/scheduler.conf|$dir/scheduler.kubeconfig|" "$component/kube-scheduler-config.yaml" |
    sed '/^clientConnection/i leaderElection: {leaderElect: false}' >"$work/scheduler.yaml"
  "$dir/bin/kube-scheduler" --config="$work/scheduler.yaml" --secure-port=0 >"$work/scheduler.log" 2>&1 &
  started+=($!)
}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# --- What is looked at ------------------------------------------------------------------------------------------------

# become WANT APP: succeeds if the states of the app's pods are WANT, such as "13 run, 3 wait". A pod that runs has an address.
# A pod that waits is bound to no node, and its condition says why.
become() {
  local got
  got=$(kubectl get pods -l "app=$2" -o json | jq -r '[.items[] |
      if .metadata.deletionTimestamp then "end"
      elif .status.phase == "Running" and .status.podIP then "run"
      elif .spec.nodeName then "are created on a node"
      elif any(.status.conditions[]?; .type == "PodScheduled" and .reason == "Unschedulable"
        and (.message | contains("no ipam.berth.dev/ipv4 address is left"))) then "wait"
      else "are \(.status.phase)" end]
    | group_by(.) | map("\(length) \(.[0])") | join(", ")') || return 1
  [[ $got == "$1" ]] || { echo "wanted '$1', got '$got'"; return 1; }
}
free_are() { equals "$1" free_in pods-v4; }

# retried_at_most COUNT: succeeds if at most COUNT pods were on a node without a free address.
retried_at_most() {
  local retried
  retried=$(kubectl get events -o json | jq '[.items[] | select(.reason == "FailedCreatePodSandBox").involvedObject.name] | unique | length')
  echo "$retried pods were retried on a node"
  ((retried <= $1))
}
requests_nothing() {
  kubectl get pods -o json | jq -e 'all(.items[].spec.containers[].resources; (tostring | contains("ipam.berth.dev")) | not)'
}
end_one() { kubectl delete pod "$(kubectl get pods -l "app=$1" --field-selector=status.phase=Running -o jsonpath='{.items[0].metadata.name}')"; }

# Kills the leader at once.
kill_leader() {
  kubectl get pods -n berth-system -l app.kubernetes.io/component=controller --field-selector "status.podIP=$(endpoint)" -o name |
    xargs env kubectl delete -n berth-system --grace-period=0 --force
}

# --- Scenarios --------------------------------------------------------------------------------------------------------

burst() {
  local free=13 more=3
  check "$free addresses are free" soon free_are $free
  deployment web 0 "" >/dev/null
  scale web $((free + more)) >/dev/null
  check "of $free + $more pods exactly $free run with an address, $more wait" soon become "$free run, $more wait" web
  check "and that stays" stays 5 become "$free run, $more wait" web
  check "no pod requests anything" requests_nothing
  check "at most $((more + 1)) pods met a node without an address" retried_at_most $((more + 1))
  scale web $free >/dev/null
  check "without those that wait all run" soon become "$free run" web
  scale web $((free + more)) >/dev/null
  check "$more wait again" soon become "$free run, $more wait" web
  for i in 1 2 3; do
    end_one web >/dev/null
    check "one is deleted ($i): another runs in its place, and one more waits" soon become "$free run, $more wait" web
  done
  check "still at most $((more + 1)) pods met a node without an address" retried_at_most $((more + 1))
}

# Many pods come at once, 20 times, each time on nodes that are empty again.
bursts() {
  local free=13 more i
  kubectl get deployment web >/dev/null 2>&1 || deployment web 0 "" >/dev/null
  for ((i = 1; i <= 20; i++)); do
    more=$((i % 3 + 1))
    scale web 0 >/dev/null
    check "burst $i: all go" within 90 become "" web
    check "burst $i: $free addresses are free" soon free_are $free
    no_events >/dev/null
    scale web $((free + more)) >/dev/null
    check "burst $i: of $free + $more pods exactly $free run with an address" soon become "$free run, $more wait" web
    check "burst $i: at most $((more + 1)) pods met a node without an address" retried_at_most $((more + 1))
  done
}

leader_dies() {
  local before
  scale web 5 >/dev/null
  check "leader: 5 pods run" soon become "5 run" web
  before=$(leader)
  check "the leader is killed" kill_leader
  scale web 9 >/dev/null
  check "another controller leads" promptly 40 other_leader_than "$before"
  check "and answers" soon old_form
  check "and pods are placed" soon become "9 run" web
  scale web 16 >/dev/null
  check "and no more than there are addresses" soon become "13 run, 3 wait" web
  check "at most 4 pods met a node without an address" retried_at_most 4
}

controllers() { kubectl get pods -n berth-system -l app.kubernetes.io/component=controller "$@"; }
none_is_left() { equals "" controllers -o name; }
places_one_as_told() { bash -euc "$(commands rescue | sed 's/"NODE"/"n1"/')"; }
two_nodes_have_one() { equals "n1 n2" eval 'controllers -o json | jq -r "[.items[].spec.nodeName] | sort | join(\" \")"'; }
are() { equals "$1" eval 'controllers -o json | jq -r "[.items[].status.phase] | sort | join(\" \")"'; } # PHASES
# Two controllers without the extender exist, and at least one of them runs.
extender_is_gone() { { are "Pending Running" || are "Running Running"; } && refused grep -q extender-port <(controllers -o json); }
# One controller waits for a node, and has the extender.
extender_waits() {
  controllers --field-selector=spec.nodeName= -o json |
    jq -e '[.items[].spec.containers[0].args | any(startswith("--extender-port"))] == [true]'
}
controllers_are_available() { kubectl wait -n berth-system --for=jsonpath='{.status.availableReplicas}'=2 deployment/berth-controller --timeout=60s; }

nobody_answers() {
  check "nobody: both controllers are gone" kubectl scale -n berth-system deployment/berth-controller --replicas=0
  check "and no pod of them is left" soon none_is_left
  kubectl scale -n berth-system deployment/berth-controller --replicas=2 >/dev/null
  check "their new pods wait for the scheduler" soon are "Pending Pending"
  check "and still wait" stays 5 are "Pending Pending"
  check "the README's commands place one of them" places_one_as_told
  check "which answers" soon old_form
  check "both controllers become available" soon controllers_are_available
  check "on two nodes" soon two_nodes_have_one
  check "and stay" stays 10 two_nodes_have_one
}

# Somebody applies the manifests without the component, and then follows the README. Whether the scheduler still places the
# second of the new controllers depends on whether the last of the old ones leads until then.
component_is_lost() {
  check "lost: the manifests are applied without the component" kubectl apply -k "$root/install/overlays/example-bridge"
  check "no controller with the extender is left" soon extender_is_gone
  check "the kustomization with the component is applied" apply_extender
  check "its new pod waits for the scheduler" soon extender_waits
  check "and still waits" stays 10 extender_waits
  check "the README's commands place it" places_one_as_told
  check "which answers" soon old_form
  check "both controllers become available" soon controllers_are_available
  check "on two nodes" soon two_nodes_have_one
}

shared_pool() {
  check "shared: all pods go" clean
  check "a Shared pool takes the place of the other" replace_pool pods-v4 \
    '{"subnet": "10.56.0.0/29", "gateway": "10.56.0.1", "affinity": "Shared"}'
  no_events >/dev/null
  deployment web 8 "" >/dev/null
  check "of 8 pods 5 run, as many as there are addresses for both nodes" soon become "5 run, 3 wait" web
  check "and that stays" stays 5 become "5 run, 3 wait" web
  check "at most 4 pods met a node without an address" retried_at_most 4
}

# ask BODY: sends a question like a scheduler of 2017.
ask() {
  curl --silent --show-error --cacert "$work/tls/ca.crt" --cert "$work/tls/client.crt" --key "$work/tls/client.key" \
    --resolve "berth-extender.berth-system.svc:$port:127.0.0.1" --data "$1" "https://berth-extender.berth-system.svc:$port/v1/filter"
}
old_form() {
  ask '{"pod": {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"hostNetwork": true}},
    "nodes": {"items": [{"metadata": {"name": "n1"}}]}}' | jq -ce '[.nodes.items[].metadata.name] == ["n1"] and .error == ""'
}
# Succeeds if the controllers' metrics count the questions of the scheduler.
metrics_count_questions() {
  local pid
  for pid in $(pids_of berth-controller); do controller_metrics "$pid" || return 1; done >"$work/metrics"
  grep -E '^berth_controller_extender_requests_total\{.*verb="filter".*\} [1-9]' "$work/metrics" &&
    grep -E '^berth_controller_extender_seconds_count\{.*verb="filter".*\} [1-9]' "$work/metrics" &&
    grep '^berth_controller_extender_assumed_pods ' "$work/metrics"
}
needs_certificate() { refused curl --silent --insecure "https://127.0.0.1:$port/filter"; }

# --- All of it --------------------------------------------------------------------------------------------------------

set_up
check "kube-scheduler asks berth" scheduler_asks_berth
check "a question in the form of 2017 is answered in that form" soon old_form
check "a caller without a certificate is not answered" needs_certificate
check "the controllers' metrics count the questions" metrics_count_questions
for scenario in "${@:2}"; do $scenario; done
if (($# < 2)); then
  burst
  if [[ ${BERTH_SWEEP-} == all ]]; then bursts; fi
  leader_dies
  nobody_answers
  component_is_lost
  shared_pool
fi
"$root/e2e/rights.sh" note "$dir" "$build/rights/extender"
print_counts
