#!/usr/bin/env bash
# The demo: starts a one-node Kubernetes cluster, installs berth, runs and ends 30 pods, and shows which pod has which address.
#
#   e2e/demo.sh             needs the image build/image/berth.tar: "make demo" makes it first
#   KEEP=1 e2e/demo.sh      leaves the cluster running at the end and prints how to use it
#   e2e/demo.sh down DIR    takes down a cluster that KEEP=1 left running
#
# The demo makes one new folder under ${TMPDIR:-/tmp}, and removes it at its end, even if it is interrupted.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
image=${BERTH_IMAGE_FILE:-$here/../build/image/berth.tar}
install=$here/../install
pods=30
dir=
step_pid=
finished=

if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
  live=1 bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m' clear=$'\r\e[K'
else
  live='' bold='' dim='' green='' red='' plain='' clear=''
fi

# --- What is printed ------------------------------------------------------------------------------------------------

milliseconds() { local now=${EPOCHREALTIME/[.,]/}; echo $((now / 1000)); }
seconds_since() { local ms=$(($(milliseconds) - $1)); printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100)); }

heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
say() { printf '%s\n' "$@" | sed '/./s/^/  /'; }

# shown COMMAND...: prints the command as a person would type it, and its output.
shown() {
  printf '\n  %s$ %s%s\n' "$dim" "$*" "$plain"
  "$@" | sed '/./s/^/    /'
}

# step TEXT COMMAND...: runs the command, and prints how long it took. After 2 s, prints the progress again and again. Prints
# the output of the command only if it fails.
step() {
  local text=$1 started log status=0 said=0
  shift
  started=$(milliseconds)
  log=$dir/logs/demo-step.log
  set -m # a process group of its own, so that an interruption ends the step and all its children
  "$@" >"$log" 2>&1 </dev/null &
  step_pid=$!
  set +m
  while kill -0 "$step_pid" 2>/dev/null; do
    report_progress "$text" "$started" "$log"
    sleep 0.1
  done
  wait "$step_pid" || status=$?
  step_pid=
  if ((status == 0)); then
    printf '%s  %s✓%s %-58s %s%8s%s\n' "$clear" "$green" "$plain" "$text" "$dim" "$(seconds_since "$started")" "$plain"
    return
  fi
  printf '%s  %s✗%s %s: failed after %s\n' "$clear" "$red" "$plain" "$text" "$(seconds_since "$started")"
  sed 's/^/    /' "$log" | tail -n 20
  exit 1
}

# Uses the variable `said` of its caller: when the last line was printed, in milliseconds after the start.
report_progress() {
  local text=$1 started=$2 log=$3 passed last
  passed=$(($(milliseconds) - started))
  ((passed < 2000)) && return
  last=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | sed 's/^ *//')
  if [[ -n $live ]]; then
    local width=$((${COLUMNS:-$(tput cols)} - ${#text} - 16)) # a line that wraps cannot be cleared
    printf '%s  … %s  %s%s  %s%s' "$clear" "$text" "$dim" "$(seconds_since "$started")" \
      "${last:0:$((width > 0 ? width : 0))}" "$plain"
  elif ((said == 0 || passed - said >= 5000)); then
    said=$passed
    printf '  … %s, %s  %s\n' "$text" "$(seconds_since "$started")" "${last:0:60}"
  fi
}

# --- What is done ---------------------------------------------------------------------------------------------------

cluster_environment() { eval "$("$here/cluster" env --dir "$dir")"; }

# Installs as an administrator does, except that an administrator gets the image from a registry.
install_crds() {
  kubectl apply -k "$here/../crds/"
  kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s
}

install_berth() {
  kubectl apply -k "$install/overlays/example-bridge/"
  kubectl rollout status --namespace berth-system daemonset/berth-agent --timeout=120s
  kubectl wait --namespace berth-system --for=condition=Available deployment/berth-controller --timeout=120s
}

make_pools() {
  kubectl apply -f "$here/demo/pools.yaml"
  kubectl wait --for=condition=Ready ippool/pods-v4 ippool/pods-v6 --timeout=60s
}

# Waits for the address count, and until the API server applies the policy: then a dry-run pod gets the request.
count_addresses() {
  kubectl wait --for=jsonpath='{.status.allocatable.ipam\.berth\.dev/ipv4}' node/n1 --timeout=60s
  kubectl apply -k "$install/overlays/requests/"
  local end=$((SECONDS + 30))
  until kubectl run asks --image=none --dry-run=server -o yaml | grep -q ipam.berth.dev/ipv4; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

number() { kubectl get node n1 -o jsonpath='{.status.allocatable.ipam\.berth\.dev/ipv4}'; }
pods_in() { kubectl get pods -l app=web --field-selector="status.phase=$1" -o name | wc -l; }

# await_pods RUNNING PENDING
await_pods() { within_two_minutes are_there "$1" "$2" || { kubectl get pods; return 1; }; }
are_there() { [[ $(pods_in Running) == "$1" && $(pods_in Pending) == "$2" && $(pods_without_address) == "$2" ]]; }
pods_without_address() { reason_of_pending | grep -c 'Insufficient ipam\.berth\.dev/ipv4'; }
within_two_minutes() {
  local end=$((SECONDS + 120))
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
scale_beyond() { kubectl scale deployment/web --replicas=$(($1 + 2)) && await_pods "$1" 2; }
replace_one() {
  kubectl delete "$(kubectl get pods -l app=web --field-selector=status.phase=Running -o name | head -n 1)" && await_pods "$1" 2
}
reason_of_pending() {
  kubectl get pods -l app=web --field-selector=status.phase=Pending \
    -o jsonpath='{range .items[*]}{.metadata.name}{"  "}{.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}{end}'
}

run_pods() {
  kubectl apply -f "$here/demo/deployment.yaml"
  kubectl rollout status deployment/web --timeout=180s
}

# Does not use `kubectl wait --for=delete`, which waits for seconds after the last of many pods is gone.
remove_pods() { kubectl scale deployment/web --replicas=0 && within_two_minutes no_pod_is_left; }
no_pod_is_left() {
  local left
  left=$(kubectl get pods -l app=web -o name) && [[ -z $left ]]
}

await_used() { kubectl wait --for=jsonpath='{.status.used}'="$1" ippool/pods-v4 ippool/pods-v6 --timeout=60s; }

# who_has BLOCK: prints the entries of an IPv4 block for people. A key is an offset from the block's first address, and a
# value is "<namespace>/<pod> <uid> <attachment> i=<interface> t=<unix ms>" (docs/state.md).
who_has() {
  # shellcheck disable=SC2016 # the dollars are kubectl's
  kubectl get ipblock "$1" -o go-template='{{.spec.cidr}}{{"\n"}}{{range $k, $v := .allocations}}{{$k}} {{$v}}{{"\n"}}{{end}}' |
    awk -v now="$(milliseconds)" '
      # A block begins at a multiple of its size, so an offset changes only the last part of the address.
      NR == 1 { split($1, part, /[.\/]/); next }
      {
        for (i = 5; i <= NF; i++) { split($i, field, "="); value[field[1]] = field[2] }
        printf "%d.%d.%d.%d  %s  %s  %.0f s ago\n",
          part[1], part[2], part[3], part[4] + $1, $2, value["i"], (now - value["t"]) / 1000
      }' | sort -V | in_columns
}

# Prints lines of four fields, separated by two blanks, as columns with a heading. Leaves out the middle of a long list.
in_columns() {
  awk -F '  ' '
    function row(a, b, c, d) { printf "%-15s  %-30s  %-9s  %s\n", a, b, c, d }
    NR == 1 { row("ADDRESS", "POD", "INTERFACE", "SINCE") }
    NR <= 8 { row($1, $2, $3, $4) }
    END { if (NR > 8) printf "... and %d more\n", NR - 8 }'
}

# --- The end --------------------------------------------------------------------------------------------------------

clean_up() {
  local status=$?
  trap '' INT TERM HUP # the first Ctrl-C ends the demo; a second Ctrl-C must not end the cleanup
  trap - EXIT
  if [[ -n $step_pid ]]; then
    printf '%s\n' "$clear"
    kill -- "-$step_pid" 2>/dev/null || true
    wait "$step_pid" 2>/dev/null || true
    step_pid=
  fi
  [[ -n $dir ]] || exit "$status"
  if [[ -n $finished && ${KEEP:-0} != 0 ]]; then
    print_how_to_use
    exit 0
  fi
  heading "Cleaning up"
  (step "cluster down, nothing of it is left" "$here/cluster" down --dir "$dir") || status=1
  if ((status == 0 || status > 128)); then
    rm -rf "$dir"
  else
    say "The logs are in $dir/logs."
  fi
  exit "$status"
}

print_how_to_use() {
  heading "The cluster is still there"
  say "Use it from any shell in this folder:" "" \
    "  eval \"\$(e2e/cluster env --dir $dir)\"" "" \
    "  kubectl get berth                            # pools, spaces, blocks: all there is" \
    "  kubectl scale deployment/web --replicas=40" \
    "  kubectl get pods -o wide" \
    "  kubectl get ipblocks -o yaml                 # the record: who has each address" \
    "  kubectl explain ippool.spec                  # what a pool can do" \
    "  kubectl logs -n berth-system daemonset/berth-agent" \
    "  curl --unix-socket $dir/n1/run/berth/agent.sock http://berth/debug/blocks    # what the agent knows" "" \
    "Take it down:" "" \
    "  e2e/demo.sh down $dir"
}

main() {
  local begun
  begun=$(milliseconds)
  [[ -r $image ]] || { echo "e2e/demo.sh: there is no $image: run \"make demo\", which makes it" >&2; exit 1; }
  dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-demo.XXXXXX")
  mkdir "$dir/logs"
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  say "This starts a Kubernetes cluster on this machine, installs berth into it, runs $pods pods with an IPv4 and an IPv6" \
    "address each, shows who has which, and removes everything again. It takes about a minute."

  heading "A Kubernetes cluster"
  # The cluster has no network, so the node is not ready before berth is installed.
  step "control plane and one node (containerd, kubelet)" \
    "$here/cluster" up --dir "$dir" --nodes 1 --cni-conf none --image "$image"
  cluster_environment

  heading "berth in it"
  step "kubectl apply -k crds/" install_crds
  step "kubectl apply -k install/overlays/example-bridge/" install_berth
  step "an IPv4 and an IPv6 pool, accepted" make_pools
  step "node ready with its new network" kubectl wait --for=condition=Ready node/n1 --timeout=60s
  step "kubectl apply -k install/overlays/requests/" count_addresses
  shown kubectl get pods --namespace berth-system
  shown kubectl get ippools

  heading "$pods dual-stack pods"
  step "deployment/web with $pods replicas running" run_pods
  step "pools counted" await_used "$pods"
  shown kubectl get ippools,ipblocks
  local block
  block=$(kubectl get ipblocks -o jsonpath='{.items[?(@.spec.pool=="pods-v4")].metadata.name}')
  say "" "Who has what in block ${block%% *}:"
  who_has "${block%% *}" | sed 's/^/    /'

  heading "The scheduler counts addresses"
  local room
  room=$(number)
  shown kubectl get nodes -o custom-columns='NODE:.metadata.name,ADDRESSES:.status.allocatable.ipam\.berth\.dev/ipv4'
  step "room for $room pods, deployment/web scaled to $((room + 2))" scale_beyond "$room"
  say "" "$room run, and 2 wait:"
  reason_of_pending | cut -c1-110 | sed 's/^/    /'
  step "one pod deleted, one that waited runs" replace_one "$room"

  heading "All pods gone"
  step "deployment/web scaled to 0" remove_pods
  step "pools counted" await_used 0
  shown kubectl get ippools,ipblocks

  finished=1
  say "" "${green}$pods pods got 2 addresses each and gave them back.${plain} The demo took $(seconds_since "$begun")."
}

if [[ ${1:-} == down ]]; then
  "$here/cluster" down --dir "${2:?e2e/demo.sh down DIR: say which folder}"
  rm -rf "$2"
else
  main
fi
