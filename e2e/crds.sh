#!/usr/bin/env bash
# Tests crds/ and install/ on a control plane of its own: which objects the API server accepts and refuses, and what kubectl
# shows. Ends with "N passed, N failed". Takes about a minute. With BERTH_SWEEP=all it also measures the time that the rules
# cost, which takes minutes and needs an idle machine.
#
#   e2e/crds.sh [BUILD_DIR]     default: build
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build_dir=${1:-$root/build}
test_program=$build_dir/test/e2e_crds_test
cost_program=$build_dir/test/e2e_crds_cost
work=$(mktemp -d /tmp/berth-crds.XXXX)
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"
# shellcheck source=manifests.sh
source "$root/e2e/manifests.sh"

for program in "$test_program" "$cost_program"; do
  [[ -x $program ]] || fail_early "$program is missing: build it first (make)"
done

finish() {
  take_down "$work/cluster"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# says TEXT COMMAND...: the command must succeed and print TEXT, with any line breaks.
says() {
  local want=$1 text
  shift
  text=$("$@") || { echo "$text"; return 1; }
  text=$(tr -s ' \n' ' ' <<<"$text")
  [[ $text == *"$want"* ]] || { echo "wanted '$want', got: $text"; return 1; }
}

# Installs as docs/install.md says. e2e/docs.py runs the commands of the documents themselves, on nodes.
installs() {
  kubectl apply -k "$root/crds" && kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s &&
    kubectl apply -k "$root/install" && kubectl -n berth-system get daemonset/berth-agent deployment/berth-controller
}

# An installation without kustomize changes nothing.
changes_nothing_by_file() {
  local text
  text=$(kubectl apply -f "$root/crds" -f "$root/install/berth.yaml") || { echo "$text"; return 1; }
  if grep -v 'unchanged$' <<<"$text"; then return 1; fi
  kubectl apply -k "$root/install/overlays/direct" # for the rights of kubelets
}

# Every field has a description: kubectl prints <empty> for a field without a description.
explains_everything() {
  local kind text
  for kind in ippool ipspace ipblock ipallocation ipreservation; do
    text=$(kubectl explain --recursive=false "$kind") || return 1
    [[ $text != *"<empty>"* && $text != *"<no description>"* ]] || { echo "$text"; return 1; }
  done
}

refuses_typing_error() {
  local text
  text=$(
    kubectl apply -f - 2>&1 <<'END'
{apiVersion: ipam.berth.dev/v1alpha1, kind: IPPool, metadata: {name: typo}, spec: {subnet: 10.55.0.0/16, blocksize: 26}}
END
  )
  [[ $text == *'unknown field "spec.blocksize"'* ]] || { echo "$text"; return 1; }
}

# The UID of the flow schema by which the API server queues the controller's patch of a Node's status.
flow_of_a_count() {
  local token server
  token=$(kubectl -n berth-system create token berth-controller) || return 1
  server=$(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}') || return 1
  curl -sSfk -o /dev/null -D - -X PATCH "$server/api/v1/nodes/n1/status" -H "Authorization: Bearer $token" \
    -H 'Content-Type: application/merge-patch+json' -d '{"status": {"capacity": {"ipam.berth.dev/ipv4": "1"}}}' |
    tr -d '\r' | sed -nE 's/^x-kubernetes-pf-flowschema-uid: //ip'
}
has_its_queue() { equals "$(kubectl get flowschema berth -o jsonpath='{.metadata.uid}')" flow_of_a_count; }

crd_count() { kubectl get crd -l app.kubernetes.io/name=berth -o name | wc -l; }

# purge_is_refused COMMAND...: the command must fail, print the remedy, and leave the CRDs.
purge_is_refused() {
  local text
  if text=$("$@" 2>&1); then echo "it succeeded: $text"; return 1; fi
  [[ $text == *"To delete it anyway, first run kubectl annotate"* ]] || { echo "$text"; return 1; }
  [[ $(crd_count) == 5 ]] || { kubectl get crd; return 1; }
}

purges_as_told() {
  kubectl get ipb,ipp -o name | xargs -r env kubectl patch --type merge -p '{"metadata": {"finalizers": null}}' || return 1
  purge_as_told --timeout=60s && equals 0 crd_count && equals "" kubectl get validatingadmissionpolicy berth-purge -o name --ignore-not-found
}

measure_cost() {
  "$cost_program" 1000 0.3 >"$work/cost.txt"
}

# Runs the test program. Each of its tests counts as a check.
run_table() {
  local log=$work/test.log
  if "$test_program" --gtest_brief=1 >"$log" 2>&1; then :; fi
  grep -v '^Running main' "$log"
  local tests ok
  tests=$(sed -nE 's/^\[=+\] ([0-9]+) tests? from .* ran.*/\1/p' "$log")
  ok=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\..*/\1/p' "$log")
  [[ -n $tests && -n $ok && $tests -gt 0 ]] || { failed=$((failed + 1)); return; }
  passed=$((passed + ok))
  failed=$((failed + tests - ok))
}

"$root/e2e/cluster" up --dir "$work/cluster" --nodes 0 || fail_early "no cluster"
eval "$("$root/e2e/cluster" env --dir "$work/cluster")"
# The certificates of a kubelet, and of an impostor that has a node's name without the group of nodes.
export BERTH_TEST_CERTIFICATES=$work
make_certificate() { "$root/e2e/cluster" kubeconfig --dir "$work/cluster" --out "$work/$1.kubeconfig" "${@:2}"; }
make_certificate kubelet-n1 --user system:node:n1 --group system:nodes
make_certificate impostor-n7 --user system:node:n7

check "crds/ and install/ are applied" installs
check "kubectl apply -f finds nothing to change" changes_nothing_by_file
check "the policy that adds requests to pods is applied" kubectl apply -k "$root/install/overlays/requests"
check_manifests
check "kubectl explain tells what a block size is" \
  says "Prefix length of the blocks into which the pool is cut: 24 (256 addresses) to 32 (1 address) for IPv4" \
  kubectl explain ippool.spec.blockSize
check "kubectl explain tells what an entry looks like" \
  says "<namespace>/<pod> <uid> <attachment> i=<interface> t=<unix ms>" kubectl explain ipblock.allocations
check "kubectl explain describes every kind" explains_everything
run_table
check "the controller's counts of addresses have berth's queue" has_its_queue
check "kubectl get berth lists pools" says "ippool.ipam.berth.dev/base" kubectl get berth -A
check "kubectl get berth lists allocations" says "ipallocation.ipam.berth.dev/web-0" kubectl get berth -A
check "kubectl get ipb shows who owns a block" says "10.55.0.0-26 10.55.0.0/26 n1 base 2 62" kubectl get ipb
check "kubectl get ipa shows addresses" says "web-0 eth0 10.55.0.0 n1" kubectl get ipa -n default
check "kubectl get ipp, ips, ipr know the short names" kubectl get ipp,ips,ipr
check "kubectl apply refuses a typing error by name" refuses_typing_error
check "the CRDs are not deleted as a collection" purge_is_refused \
  kubectl delete --raw '/apis/apiextensions.k8s.io/v1/customresourcedefinitions?labelSelector=app.kubernetes.io%2Fname%3Dberth'
for time in once twice "three times"; do
  check "kubectl delete -k crds/ deletes none of them, $time" purge_is_refused kubectl delete -k "$root/crds"
done
if [[ ${BERTH_SWEEP-} == all ]]; then
  check "the rules add at most 0.3 ms to a PATCH of a block with 63 entries" measure_cost
  cat "$work/cost.txt"
fi
check "the commands of docs/install.md delete all" purges_as_told

print_counts
