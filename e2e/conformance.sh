#!/usr/bin/env bash
# The CNI contract against a plugin and a real control plane that it starts for itself: conformance.sh [BUILD_DIR]
#
# BERTH_PLUGIN names the plugin (default: berth-direct of BUILD_DIR), BERTH_MODE what is expected of it (direct or agent),
# BERTH_FILTER a GoogleTest filter, BERTH_SHARDS how many processes share the tests. Each shard is a node of its own. No
# controller runs: the tests write what it would write. The last line is "N passed, N failed".
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build_dir=$(cd "${1:-$source_dir/../build}" && pwd -P)
export BERTH_PLUGIN=${BERTH_PLUGIN:-$build_dir/bin/berth-direct}
export BERTH_MODE=${BERTH_MODE:-direct}
shards=${BERTH_SHARDS:-6}
nodes=20
tests=$build_dir/test/conformance_test

fail() {
  echo "conformance.sh: $*" >&2
  exit 1
}

[[ $(id -u) -eq 0 ]] || fail "needs root, for network and mount namespaces"
for program in "$BERTH_PLUGIN" "$tests"; do
  [[ -x $program ]] || fail "$program is missing: build it first (make)"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-conformance.XXXXXX")
cleanup() {
  "$source_dir/cluster" down --dir "$dir/cluster" >"$dir/down.log" 2>&1 || cat "$dir/down.log" >&2
  rm -rf "$dir"
}
trap cleanup EXIT

"$source_dir/cluster" up --dir "$dir/cluster" --nodes 0 --audit --cni-plugins
environment=$("$source_dir/cluster" env --dir "$dir/cluster")
eval "$environment"
export BERTH_TEST_KUBECONFIG=$KUBECONFIG BERTH_TEST_NODES=$dir/nodes BERTH_TEST_SCRATCH=$dir/scratch
mkdir -p "$BERTH_TEST_NODES" "$BERTH_TEST_SCRATCH"

# make_kubeconfig FILE OPTIONS...
make_kubeconfig() {
  "$source_dir/cluster" kubeconfig --dir "$dir/cluster" --out "$BERTH_TEST_NODES/$1.kubeconfig" "${@:2}"
}
for ((i = 1; i <= nodes; i++)); do
  make_kubeconfig "n$i" --user "system:node:n$i" --group system:nodes
done
make_kubeconfig nobody --user nobody
make_kubeconfig expired --user system:node:n1 --group system:nodes --expired

# run_tests NAME SHARDS FILTER
crashed=0
run_tests() {
  local name=$1 shards=$2 filter=$3 i pids=()
  for ((i = 0; i < shards; i++)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$tests" --gtest_filter="$filter" --gtest_brief=1 \
      --gtest_output="json:$dir/$name-$i.json" >"$dir/$name-$i.log" 2>&1 &
    pids+=($!)
  done
  for ((i = 0; i < shards; i++)); do
    wait "${pids[$i]}" || true
    grep -vE '^Running main|^\[==========\]|^\[  PASSED  \]|^Note: |^$' "$dir/$name-$i.log" || true
    if [[ ! -s $dir/$name-$i.json ]]; then
      echo "conformance.sh: shard $i of $name ended early"
      crashed=$((crashed + 1))
    fi
  done
}

kubectl apply -f "$source_dir/../install/rbac-nodes.yaml" >/dev/null
[[ -n ${BERTH_FILTER-} ]] || run_tests before-crds 1 'BeforeCrds.*'
kubectl apply -k "$source_dir/../crds" >/dev/null
kubectl wait --for=condition=Established crd/ippools.ipam.berth.dev crd/ipblocks.ipam.berth.dev >/dev/null
kubectl apply -k "$source_dir/../install" >/dev/null
run_tests cases "$shards" "${BERTH_FILTER:--BeforeCrds.*:Case062.*}"
[[ -n ${BERTH_FILTER-} ]] || run_tests parallel 1 'Case062.*'

# Sums a number that GoogleTest wrote at the top of its results.
count() {
  sed -nE "s/^  \"$1\": ([0-9]+),?/\1/p" "$dir"/*.json | awk '{sum += $1} END {print sum + 0}'
}
skipped=$(sed -n '/"result": "SKIPPED"/p' "$dir"/*.json | wc -l)
failed=$(($(count failures) + $(count errors) + crashed))
[[ $skipped -eq 0 ]] || echo "$skipped skipped"
echo "$(($(count tests) - $(count failures) - skipped)) passed, $failed failed"
[[ $failed -eq 0 ]]
