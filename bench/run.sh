#!/usr/bin/env bash
# Starts a control plane, measures with berth-bench, and takes the control plane down. Arguments go to berth-bench:
#
#   bench/run.sh --callers 1,8,32 --operations 200 --rounds 5
#
# Takes the programs in build/bin ("make" builds them: a release build is what should be measured) and leaves a chart,
# build/bench.svg. Needs Go for the cluster, as the demo does; no root.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=${BERTH_BIN_DIR:-$root/build/bin}
dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-bench.XXXXXX")

clean_up() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  "$root/e2e/cluster" down --dir "$dir" && rm -rf "$dir"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for program in berth-bench berth-direct; do
  [[ -x $bin/$program ]] || { echo "bench/run.sh: $program is not in $bin: run \"make\" first" >&2; exit 1; }
done

# The same certificates as on a node with that name.
node_kubeconfig() {
  "$root/e2e/cluster" kubeconfig --dir "$dir" --user "system:node:$1" --group system:nodes --out "$dir/$1.kubeconfig"
}

"$root/e2e/cluster" up --dir "$dir" --audit --cni-plugins
eval "$("$root/e2e/cluster" env --dir "$dir")"
kubectl apply -k "$root/install/" >"$dir/logs/install.log"
kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s >>"$dir/logs/install.log"
node_kubeconfig bench-direct
mkdir "$dir/state"

printf '\nOn %s x %s, Linux %s, at a load of %s.\n' \
  "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)" "$(cut -d' ' -f1 /proc/loadavg)"
"$bin/berth-bench" --direct "$bin/berth-direct" --direct-kubeconfig "$dir/bench-direct.kubeconfig" \
  --host-local "$CNI_BIN_DIR/host-local" --state-dir "$dir/state" --svg "$root/build/bench.svg" "$@"
printf '\nThe chart: %s\n' "$root/build/bench.svg"
