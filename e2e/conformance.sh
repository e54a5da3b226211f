#!/usr/bin/env bash
# Tests a plugin with the CNI contract on a control plane of its own: conformance.sh [BUILD_DIR]
#
# BERTH_MODE is direct (berth-direct alone; the default) or agent (berth, with a berth-agent for each node). BERTH_PLUGIN
# names a plugin for this mode (default: the plugin in BUILD_DIR). BERTH_FILTER is a GoogleTest filter. BERTH_SHARDS is the
# number of processes that share the tests; each shard has a node of its own. No controller runs: the tests write what the
# controller would write. The last line is "N passed, N failed".
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=/dev/null
source "$source_dir/tokens.sh"
# shellcheck source=take_down.sh
source "$source_dir/take_down.sh"
build_dir=$(cd "${1:-$source_dir/../build}" && pwd -P)
export BERTH_MODE=${BERTH_MODE:-direct}
shards=${BERTH_SHARDS:-6}
nodes=20
tests=$build_dir/test/conformance_test

fail() {
  echo "conformance.sh: $*" >&2
  exit 1
}

programs=("$tests")
case $BERTH_MODE in
  direct) programs+=("${BERTH_PLUGIN:=$build_dir/bin/berth-direct}") ;;
  agent) programs+=("${BERTH_PLUGIN:=$build_dir/bin/berth}" "${BERTH_AGENT:=$build_dir/bin/berth-agent}") ;;
  *) fail "BERTH_MODE is $BERTH_MODE, not direct or agent" ;;
esac
export BERTH_PLUGIN BERTH_AGENT=${BERTH_AGENT-}

[[ $(id -u) -eq 0 ]] || fail "needs root, for network and mount namespaces"
for program in "${programs[@]}"; do
  [[ -x $program ]] || fail "$program is missing: build it first (make)"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-conformance.XXXXXX")
agents=()
cleanup() {
  [[ ${#agents[@]} -eq 0 ]] || kill "${agents[@]}" 2>/dev/null || true
  take_down "$dir/cluster"
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$source_dir/cluster" up --dir "$dir/cluster" --nodes 0 --audit --cni-plugins
environment=$("$source_dir/cluster" env --dir "$dir/cluster")
eval "$environment"
export BERTH_TEST_KUBECONFIG=$KUBECONFIG BERTH_TEST_NODES=$dir/nodes BERTH_TEST_SCRATCH=$dir/scratch
mkdir -p "$BERTH_TEST_NODES" "$BERTH_TEST_SCRATCH"

# make_kubeconfig FILE OPTIONS...
make_kubeconfig() {
  "$source_dir/cluster" kubeconfig --dir "$dir/cluster" --out "$BERTH_TEST_NODES/$1.kubeconfig" "${@:2}"
}
# Makes the credentials of each node: a kubelet's certificate, or an agent's token.
make_node_kubeconfigs() {
  local i
  for ((i = 1; i <= nodes; i++)); do
    case $BERTH_MODE in
      direct)
        make_kubeconfig "n$i" --user "system:node:n$i" --group system:nodes
        mkdir "$BERTH_TEST_SCRATCH/state-n$i"
        echo direct >"$BERTH_TEST_SCRATCH/state-n$i/mode"
        ;;
      agent) token_kubeconfig berth-agent "n$i" >"$BERTH_TEST_NODES/n$i.kubeconfig" ;;
    esac
  done
}
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

# Starts an agent for the node of each shard.
start_agents() {
  local i
  for ((i = 1; i <= shards; i++)); do
    "$BERTH_AGENT" --node "n$i" --kubeconfig "$BERTH_TEST_NODES/n$i.kubeconfig" --socket "$BERTH_TEST_NODES/n$i.sock" \
      --state "$BERTH_TEST_SCRATCH/state-n$i" >"$dir/agent-n$i.log" 2>&1 &
    agents+=($!)
  done
}
# Fails if an agent has ended. An agent ends by itself only if another agent of its node has taken over, and no test does
# that to these agents.
check_agents() {
  local i
  for ((i = 1; i <= ${#agents[@]}; i++)); do
    kill -0 "${agents[$((i - 1))]}" 2>/dev/null && continue
    echo "conformance.sh: the agent of n$i has ended, saying:"
    tail -n 20 "$dir/agent-n$i.log"
    crashed=$((crashed + 1))
  done
}

kubectl apply -k "$source_dir/../install" >/dev/null
kubectl apply -k "$source_dir/../install/overlays/direct" >/dev/null
make_node_kubeconfigs
[[ -n ${BERTH_FILTER-} ]] || run_tests before-crds 1 'BeforeCrds.*'
kubectl apply -k "$source_dir/../crds" >/dev/null
kubectl wait --for=condition=Established crd/ippools.ipam.berth.dev crd/ipblocks.ipam.berth.dev >/dev/null
[[ $BERTH_MODE == direct ]] || start_agents
run_tests cases "$shards" "${BERTH_FILTER:--BeforeCrds.*:Case062.*}"
[[ -n ${BERTH_FILTER-} ]] || run_tests parallel 1 'Case062.*'
check_agents
"$source_dir/rights.sh" note "$dir/cluster" "$build_dir/rights/conformance-$BERTH_MODE"

# Sums a number from the top of all results of GoogleTest.
count() {
  sed -nE "s/^  \"$1\": ([0-9]+),?/\1/p" "$dir"/*.json | awk '{sum += $1} END {print sum + 0}'
}
skipped=$(sed -n '/"result": "SKIPPED"/p' "$dir"/*.json | wc -l)
failed=$(($(count failures) + $(count errors) + crashed))
[[ $skipped -eq 0 ]] || echo "$skipped skipped"
echo "$(($(count tests) - $(count failures) - skipped)) passed, $failed failed"
[[ $failed -eq 0 ]]
