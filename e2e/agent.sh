#!/usr/bin/env bash
# Tests berth and berth-agent on a control plane of its own: kills agents, replaces agents and stops their API server
# during parallel ADDs and DELs, and tests what else the two programs promise. Prints measurements. The last line is
# "N passed, N failed". Takes about three minutes.
#
#   e2e/agent.sh [BUILD_DIR]      default: build; BERTH_FILTER is a GoogleTest filter
set -euo pipefail
unset KUBECONFIG NODE_NAME KUBERNETES_SERVICE_HOST

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build_dir=$(cd "${1:-$source_dir/../build}" && pwd -P)
# shellcheck source=take_down.sh
source "$source_dir/take_down.sh"
export BERTH_PLUGIN=$build_dir/bin/berth BERTH_AGENT=$build_dir/bin/berth-agent
tests=$build_dir/test/agent_e2e_test

fail() {
  echo "agent.sh: $*" >&2
  exit 1
}
[[ $(id -u) -eq 0 ]] || fail "needs root, as a runtime has"
for program in "$BERTH_PLUGIN" "$BERTH_AGENT" "$build_dir/bin/berth-direct" "$tests"; do
  [[ -x $program ]] || fail "$program is missing: build it first (make)"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-agent.XXXXXX")
export BERTH_CLUSTER=$source_dir/cluster BERTH_CLUSTER_DIR=$dir/cluster BERTH_TEST_SCRATCH=$dir/scratch
cleanup() {
  take_down "$BERTH_CLUSTER_DIR"
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$BERTH_CLUSTER" up --dir "$BERTH_CLUSTER_DIR" --nodes 0 --audit
environment=$("$BERTH_CLUSTER" env --dir "$BERTH_CLUSTER_DIR")
eval "$environment"
mkdir "$BERTH_TEST_SCRATCH"
export BERTH_TEST_KUBECONFIG=$KUBECONFIG
for part in crds install install/overlays/direct; do kubectl apply -k "$source_dir/../$part" >/dev/null; done
kubectl wait --for=condition=Established crd/ippools.ipam.berth.dev crd/ipblocks.ipam.berth.dev >/dev/null

"$tests" --gtest_filter="${BERTH_FILTER:-*}" --gtest_brief=1 --gtest_output="json:$dir/results.json" || true
[[ -s $dir/results.json ]] || fail "the tests ended early"
"$source_dir/rights.sh" note "$BERTH_CLUSTER_DIR" "$build_dir/rights/agent"
# Prints a number from the top of GoogleTest's results.
count() { sed -nE "s/^  \"$1\": ([0-9]+),?/\1/p" "$dir/results.json" | head -n 1; }
failed=$(($(count failures) + $(count errors)))
echo "$(($(count tests) - failed)) passed, $failed failed"
[[ $failed -eq 0 ]]
