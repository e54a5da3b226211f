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
shards=${BERTH_SHARDS:-4}
nodes=20
tests=$build_dir/test/conformance_test

for program in "$BERTH_PLUGIN" "$tests"; do
  [[ -x $program ]] || { echo "conformance.sh: $program is missing: build it first (make)" >&2; exit 1; }
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-conformance.XXXXXX")
cleanup() {
  "$source_dir/cluster" down --dir "$dir/cluster" >"$dir/down.log" 2>&1 || cat "$dir/down.log" >&2
  rm -rf "$dir"
}
trap cleanup EXIT

"$source_dir/cluster" up --dir "$dir/cluster" --nodes 0 --audit
eval "$("$source_dir/cluster" env --dir "$dir/cluster")"
kubectl apply -k "$source_dir/../crds" >/dev/null
kubectl wait --for=condition=Established crd/ippools.ipam.berth.dev crd/ipblocks.ipam.berth.dev >/dev/null
kubectl apply -k "$source_dir/../install" >/dev/null

export BERTH_TEST_KUBECONFIG=$KUBECONFIG BERTH_TEST_NODES=$dir/nodes BERTH_TEST_SCRATCH=$dir/scratch
mkdir -p "$BERTH_TEST_NODES" "$BERTH_TEST_SCRATCH"
for ((i = 1; i <= nodes; i++)); do
  "$source_dir/cluster" kubeconfig --dir "$dir/cluster" --user "system:node:n$i" --group system:nodes \
    --out "$BERTH_TEST_NODES/n$i.kubeconfig"
done
"$source_dir/cluster" kubeconfig --dir "$dir/cluster" --user nobody --out "$BERTH_TEST_NODES/nobody.kubeconfig"

pids=()
for ((i = 0; i < shards; i++)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$tests" --gtest_filter="${BERTH_FILTER:-*}" --gtest_brief=1 \
    --gtest_output="json:$dir/result-$i.json" >"$dir/shard-$i.log" 2>&1 &
  pids+=($!)
done
crashed=0
for ((i = 0; i < shards; i++)); do
  wait "${pids[$i]}" || true
  grep -vE '^Running main|^\[==========\]|^\[  PASSED  \]|^Note: |^$' "$dir/shard-$i.log" || true
  [[ -s $dir/result-$i.json ]] || { echo "conformance.sh: shard $i ended early" >&2; crashed=$((crashed + 1)); }
done

count() { cat "$dir"/result-*.json 2>/dev/null | grep -m1000 -oE "^  \"$1\": [0-9]+" | awk '{sum += $2} END {print sum + 0}'; }
total=$(count tests)
failed=$(($(count failures) + $(count errors) + crashed))
skipped=$(($(cat "$dir"/result-*.json 2>/dev/null | grep -c '"result": "SKIPPED"' || true)))
[[ $skipped -eq 0 ]] || echo "$skipped skipped"
echo "$((total - failed - skipped)) passed, $failed failed"
[[ $failed -eq 0 ]]
