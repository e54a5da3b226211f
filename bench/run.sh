#!/usr/bin/env bash
# Starts a control plane, measures with berth-bench, and takes the control plane down. Arguments go to berth-bench:
#
#   bench/run.sh --callers 1,8,32 --operations 200 --rounds 5     plugins, one node
#   bench/run.sh --nodes 1000 --addresses 20000 --rounds 3        agents of many nodes
#   bench/run.sh --claims 5000                                    agents that all start at once
#   bench/run.sh --help                                           all arguments
#
# If plugins are measured, the script measures one more round on a second control plane with an audit log, to count requests. The
# first control plane has no audit log, because the API server writes it before it answers, and so each call would be slower.
#
# Uses the programs in build/bin ("make" builds them; measure a release build), and writes a chart of the first measurement to
# build/bench.svg. Needs Go for the cluster, as the demo does, and no root. Ends with exit code 0 if all measurements succeeded,
# even if goals were missed.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=${BERTH_BIN_DIR:-$root/build/bin}

for program in berth-bench berth-direct berth berth-agent; do
  [[ -x $bin/$program ]] || { echo "bench/run.sh: $program is not in $bin: run \"make\" first" >&2; exit 1; }
done
[[ " $* " =~ \ (-h|--help)\  ]] && exec "$bin/berth-bench" --help

# shellcheck source=/dev/null
source "$root/e2e/tokens.sh"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/berth-bench.XXXXXX")
# A folder in memory, like /run on a node. host-local's files are on disk, as on a node.
memory=$(mktemp -d /dev/shm/berth-bench.XXXXXX)
dir= # folder of the running control plane

take_down() {
  [[ -n $dir ]] || return 0
  "$root/e2e/cluster" down --dir "$dir" && dir=
}

clean_up() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  if take_down; then rm -rf "$scratch" "$memory"; else status=1; fi
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# start NAME OPTION...: starts a control plane with the options of e2e/cluster.
start() {
  dir=$scratch/$1
  run_dir=$memory/$1
  mkdir -p "$dir/logs" "$run_dir"
  "$root/e2e/cluster" up --dir "$dir" "${@:2}"
  eval "$("$root/e2e/cluster" env --dir "$dir")"
  unset token_cluster # e2e/tokens.sh remembers the previous control plane here
  # Without plugins, one agent's token is used for thousands of nodes, but the policy would allow it only one node's blocks. So the
  # policy's binding is never created: the API server would apply it for some seconds after its deletion.
  local parts=("$root/crds" "$root/install" "$root/install/overlays/direct")
  [[ -n $with_plugins ]] || { leave_out_policy && parts=("$root/crds" "$dir/install"); }
  for part in "${parts[@]}"; do kubectl apply -k "$part"; done >"$dir/logs/install.log"
  kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s >>"$dir/logs/install.log"

  # The same rights as on a node: the kubelet's rights, and the rights of the agent's service account.
  "$root/e2e/cluster" kubeconfig --dir "$dir" --user system:node:bench-direct --group system:nodes \
    --out "$dir/direct.kubeconfig"
  # A token, as agents have in a cluster: the API server would verify a certificate again with each request.
  token_kubeconfig berth-agent bench-agent >"$dir/agent.kubeconfig"
  token_kubeconfig berth-agent bench-raw >"$dir/raw.kubeconfig"
  mkdir "$dir/state"
}

# Writes $dir/install: the contents of install/ without the binding of the policy on blocks.
leave_out_policy() {
  mkdir "$dir/install"
  cat >"$dir/install/kustomization.yaml" <<END
resources: [$(realpath --relative-to="$dir/install" "$root/install")]
patches:
- patch: |
    \$patch: delete
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicyBinding
    metadata: {name: berth-blocks}
END
}

# measure ARGUMENT...: runs berth-bench with the arguments and with the paths of this control plane.
measure() {
  "$bin/berth-bench" --berth "$bin/berth" --agent "$bin/berth-agent" --agent-kubeconfig "$dir/agent.kubeconfig" \
    --raw-kubeconfig "$dir/raw.kubeconfig" \
    --direct "$bin/berth-direct" --direct-kubeconfig "$dir/direct.kubeconfig" \
    --host-local "${CNI_BIN_DIR:-}/host-local" --state-dir "$dir/state" --run-dir "$run_dir" \
    --svg "$root/build/bench.svg" "$@"
}

with_plugins=yes
[[ " $*" =~ \ --(nodes|claims) ]] && with_plugins=

start timed ${with_plugins:+--cni-plugins}
printf '\nOn %s x %s, Linux %s, at a load of %s.\n' \
  "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)" "$(cut -d' ' -f1 /proc/loadavg)"
measure "$@"
[[ -n $with_plugins ]] || exit 0

take_down
printf '\nThe same again, one round, on a control plane with an audit log, to count requests.\n'
start counted --cni-plugins --audit
measure "$@" --count-requests
