#!/usr/bin/env bash
# Tests k8sclient/ on a control plane of its own: verbs, errors, credentials, watches, leader election, restarts of the API
# server, and a restored backup. Also runs the contract with which the models of an API server must agree (e2e/contract).
# Ends with "N passed, N failed". Takes about two minutes.
#
#   e2e/k8sclient.sh [BUILD_DIR]     default: build
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build_dir=${1:-$root/build}
test_program=$build_dir/test/e2e_k8sclient_test
work=$(mktemp -d /tmp/berth-k8s.XXXX)
# shellcheck source=take_down.sh
source "$root/e2e/take_down.sh"

[[ -x $test_program ]] || { echo "e2e/k8sclient.sh: $test_program is missing: build it first (make)" >&2; exit 2; }

finish() {
  take_down "$work/cluster"
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

installs_crds() {
  (
    eval "$("$root/e2e/cluster" env --dir "$work/cluster")"
    kubectl apply -k "$root/crds" >"$work/crds.log" 2>&1 &&
      kubectl wait --for=condition=Established crd --all --timeout=60s >>"$work/crds.log" 2>&1
  ) || { cat "$work/crds.log"; return 1; }
}

if ! "$root/e2e/cluster" up --dir "$work/cluster" --nodes 0 || ! installs_crds; then
  echo "0 passed, 1 failed"
  exit 1
fi

BERTH_TEST_CLUSTER_DIR=$work/cluster timeout 540 "$test_program" | tee "$work/test.log"
tests=$(sed -nE 's/^\[=+\] ([0-9]+) tests? from .* ran.*/\1/p' "$work/test.log")
passed=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\..*/\1/p' "$work/test.log")
# If the program ended before its summary, it has failed, even if tests passed before.
[[ -n $tests && -n $passed ]] || { echo "0 passed, 1 failed"; exit 1; }
echo "$passed passed, $((tests - passed)) failed"
((tests == passed && tests > 0))
