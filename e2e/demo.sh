#!/usr/bin/env bash
# The demo: a one-node Kubernetes cluster, berth installed into it, 30 pods that come and go, and who has which address.
#
#   e2e/demo.sh             needs the programs in build/bin: "make demo" builds them first
#   KEEP=1 e2e/demo.sh      leaves the cluster running at the end and says how to use it
#   e2e/demo.sh down DIR    takes a cluster down that was left running
#
# Everything it makes is in one new folder under ${TMPDIR:-/tmp}, and goes when it ends, also when it is interrupted.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=${BERTH_BIN_DIR:-$here/../build/bin}
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

# shown COMMAND...: prints the command as a person would type it, and what it answers.
shown() {
  printf '\n  %s$ %s%s\n' "$dim" "$*" "$plain"
  "$@" | sed '/./s/^/    /'
}

# step TEXT COMMAND...: runs it, and says how long it took. After two seconds it says what is going on, then goes on
# saying so. What the command writes is only shown if it fails.
step() {
  local text=$1 started log status=0 said=0
  shift
  started=$(milliseconds)
  log=$dir/logs/demo-step.log
  set -m # a process group of its own, so that an interrupted step ends with all it started
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

# Uses `said` of its caller: when, in milliseconds after the start, a line was last printed.
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

# As an administrator would: the CRDs and roles, the plugin beside the others, the node's network.
install_plugin() {
  install -m 755 "$bin/berth" "$CNI_BIN_DIR/berth"
  kubectl apply -k "$here/../install/"
  kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s
  local network
  network=$(<"$here/demo/network.conflist")
  network=${network//@BRIDGE@/$BERTH_NODE1_BRIDGE}
  network=${network//@DIR@/$dir}
  # Written in place: containerd does not look again when a file is renamed into the folder, only when one is written.
  printf '%s\n' "$network" >"$BERTH_NODE1_CNI_CONF_DIR/10-network.conflist"
}

# In a cluster of one's own the agent is a DaemonSet and the controller a Deployment; here there is no image registry, so
# they run as processes with the rights of their service accounts.
# start_program PROGRAM OPTIONS...
start_program() {
  local program=$1
  "$here/cluster" kubeconfig --dir "$dir" --user "system:serviceaccount:berth-system:$program" \
    --group system:serviceaccounts --group system:serviceaccounts:berth-system --out "$dir/$program.kubeconfig"
  setsid "$bin/$program" --kubeconfig "$dir/$program.kubeconfig" "${@:2}" >"$dir/logs/$program.log" 2>&1 </dev/null &
  echo $! >"$dir/$program.pid"
}
start_agent() {
  start_program berth-agent --node n1 --socket "$dir/agent.sock" --state "$dir/berth" --run-dir "$dir/berth-run" \
    --log-level debug
}
start_programs() {
  start_agent
  start_program berth-controller
}

make_pools() {
  kubectl apply -f "$here/demo/pools.yaml"
  kubectl wait --for=condition=Ready ippool/demo-v4 ippool/demo-v6 --timeout=60s
}

run_pods() {
  kubectl apply -f "$here/demo/deployment.yaml"
  kubectl rollout status deployment/web --timeout=180s
}

remove_pods() {
  kubectl scale deployment/web --replicas=0
  kubectl wait --for=delete pod -l app=web --timeout=180s
}

await_used() { kubectl wait --for=jsonpath='{.status.used}'="$1" ippool/demo-v4 ippool/demo-v6 --timeout=60s; }

# who_has BLOCK: the entries of an IPv4 block, readable: a key is an offset from the block's first address, a value is
# "<namespace>/<pod> <uid> <attachment> i=<interface> t=<unix ms>" (docs/state.md).
who_has() {
  # shellcheck disable=SC2016 # the dollars are kubectl's
  kubectl get ipblock "$1" -o go-template='{{.spec.cidr}}{{"\n"}}{{range $k, $v := .allocations}}{{$k}} {{$v}}{{"\n"}}{{end}}' |
    awk -v now="$(milliseconds)" '
      # A block begins at a multiple of its size, so an offset changes nothing but the last part of the address.
      NR == 1 { split($1, part, /[.\/]/); next }
      {
        for (i = 5; i <= NF; i++) { split($i, field, "="); value[field[1]] = field[2] }
        printf "%d.%d.%d.%d  %s  %s  %.0f s ago\n",
          part[1], part[2], part[3], part[4] + $1, $2, value["i"], (now - value["t"]) / 1000
      }' | sort -V | in_columns
}

# Lines of four fields that two blanks part, under a heading; the middle of a long list is left out.
in_columns() {
  awk -F '  ' '
    function row(a, b, c, d) { printf "%-15s  %-30s  %-9s  %s\n", a, b, c, d }
    NR == 1 { row("ADDRESS", "POD", "INTERFACE", "SINCE") }
    NR <= 8 { row($1, $2, $3, $4) }
    END { if (NR > 8) printf "... and %d more\n", NR - 8 }'
}

# --- The end --------------------------------------------------------------------------------------------------------

# take_down DIR: the cluster, then agent and controller.
take_down() {
  local pid program
  # In this order: the node's last pods go through the agent.
  "$here/cluster" down --dir "$1"
  for program in berth-agent berth-controller; do
    # A pid may be another process by now.
    if pid=$(cat "$1/$program.pid" 2>/dev/null) && grep -qs "$1/$program.kubeconfig" "/proc/$pid/cmdline"; then
      kill "$pid"
    fi
  done
}

clean_up() {
  local status=$?
  trap '' INT TERM HUP # one Ctrl-C ends the demo, a second one must not end the cleaning up
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
  (step "cluster down, nothing of it is left" take_down "$dir") || status=1
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
    "  tail $dir/logs/berth-agent.log    # what the agent did, call by call" \
    "  curl --unix-socket $dir/agent.sock http://berth/debug/blocks    # what it knows" "" \
    "Take it down:" "" \
    "  e2e/demo.sh down $dir"
}

main() {
  local program begun
  begun=$(milliseconds)
  for program in berth berth-agent berth-controller; do
    [[ -x $bin/$program ]] || { echo "e2e/demo.sh: $program is not in $bin: run \"make demo\", which builds it" >&2; exit 1; }
  done
  dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-demo.XXXXXX")
  mkdir "$dir/logs"
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  say "This starts a Kubernetes cluster on this machine, installs berth into it, runs $pods pods with an IPv4 and an IPv6" \
    "address each, shows who has which, and removes everything again. It takes about a minute."

  heading "A Kubernetes cluster"
  step "control plane and one node (containerd, kubelet, bridge)" "$here/cluster" up --dir "$dir" --nodes 1
  cluster_environment

  heading "berth in it"
  step "CRDs, roles, the plugin in the node's CNI folder" install_plugin
  step "berth-agent for the node, berth-controller" start_programs
  step "an IPv4 and an IPv6 pool, accepted" make_pools
  shown kubectl get ippools

  heading "$pods dual-stack pods"
  step "node ready with its new network" kubectl wait --for=condition=Ready node/n1 --timeout=60s
  step "deployment/web with $pods replicas running" run_pods
  step "pools counted" await_used "$pods"
  shown kubectl get ippools,ipblocks
  local block
  block=$(kubectl get ipblocks -o jsonpath='{.items[?(@.spec.pool=="demo-v4")].metadata.name}')
  say "" "Who has what in block ${block%% *}:"
  who_has "${block%% *}" | sed 's/^/    /'

  heading "All pods gone"
  step "deployment/web scaled to 0" remove_pods
  step "pools counted" await_used 0
  shown kubectl get ippools,ipblocks

  finished=1
  say "" "${green}$pods pods got 2 addresses each and gave them back.${plain} The demo took $(seconds_since "$begun")."
}

if [[ ${1:-} == down ]]; then
  take_down "${2:?e2e/demo.sh down DIR: say which folder}"
  rm -rf "$2"
else
  main
fi
