#!/usr/bin/env bash
# Tests berthctl on a control plane of its own: what berthctl shows, what check finds, what release frees and refuses.
# No controller runs. Ends with "N passed, N failed". Takes about 15 seconds.
#
#   e2e/berthctl.sh [BUILD_DIR]     default: build
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
bin=${1:-$root/build}/bin
work=$(mktemp -d /tmp/berth-berthctl.XXXX)
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"
[[ -x $bin/berthctl ]] || fail_early "$bin/berthctl is missing: build it first (make)"

finish() {
  take_down "$work/cluster"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# ends CODE TEXT COMMAND...: the command must end with the exit code CODE and print TEXT.
ends() {
  local want=$1 says=$2 text code=0
  shift 2
  text=$("$@" 2>&1) || code=$?
  [[ $code == "$want" && $text == *"$says"* ]] || { echo "wanted $want and '$says', got $code: $text"; return 1; }
}

# pod NAME NODE ADDRESS [NAMESPACE]: creates a pod that runs, as far as the API server knows.
pod() {
  local namespace=${4:-kube-public}
  kubectl create -f - >/dev/null <<END || return 1
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1", "namespace": "$namespace"},
 "spec": {"nodeName": "$2", "containers": [{"name": "x", "image": "example.org/x"}]}}
END
  kubectl -n "$namespace" patch pod "$1" --subresource status --type merge \
    -p "{\"status\": {\"phase\": \"Running\", \"podIP\": \"$3\", \"podIPs\": [{\"ip\": \"$3\"}]}}" >/dev/null
}

# waiter NAME UNITS: creates a pod that requests UNITS addresses. The pod tolerates every taint, so that taints, which
# come and go, do not change what berthctl says about the pod.
waiter() {
  kubectl create -f - >/dev/null <<END
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1", "namespace": "team-a"},
 "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "x", "image": "example.org/x",
  "resources": {"requests": {"ipam.berth.dev/ipv4": "$2"}, "limits": {"ipam.berth.dev/ipv4": "$2"}}}]}}
END
}

# held POD UID ID [NAMESPACE]: prints a held entry.
held() { echo "${4:-kube-public}/$1 $2 0123456789ab-$(printf '%016d' "$3") i=eth0 t=1763700000000"; }

prepare() {
  { kubectl apply -k "$root/crds" && kubectl apply -k "$root/install"; } >/dev/null || return 1
  kubectl wait --for condition=Established crd -l app.kubernetes.io/name=berth --timeout 60s >/dev/null || return 1
  kubectl create -f - >/dev/null <<'END' || return 1
{"apiVersion": "v1", "kind": "List", "items": [
 {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}},
 {"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "web"}, "spec": {"subnet": "10.55.0.0/24"}}]}
END
  kubectl patch ippool web --subresource status --type merge -p '{"status": {"total": "254", "used": "3", "free": "251",
    "blocks": 1, "conditions": [{"type": "Ready", "status": "True", "reason": "Accepted", "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}' >/dev/null || return 1
  kubectl -n kube-public wait --for create serviceaccount/default --timeout 60s >/dev/null || return 1
  # The examples in berthctl's help use team-a/web-0 and 10.55.0.7.
  kubectl create namespace team-a >/dev/null &&
    kubectl -n team-a wait --for create serviceaccount/default --timeout 60s >/dev/null || return 1
  # The node has no kubelet, so the controller manager would soon mark it as not Ready.
  "$root/e2e/cluster" stop kube-controller-manager --dir "$work/cluster" || return 1
  # The address count that the controller would write. The node has no capacity for pods, so the scheduler binds none.
  kubectl patch node worker-1 --subresource status --type merge -p '{"status": {"conditions": [{"type": "Ready", "status": "True"}],
    "capacity": {"ipam.berth.dev/ipv4": "59"}, "allocatable": {"ipam.berth.dev/ipv4": "59"}}}' >/dev/null || return 1
  pod live worker-1 10.55.0.1 && pod web-0 worker-1 10.55.0.7 team-a || return 1
  local uid web_uid pool_uid
  pool_uid=$(kubectl get ippool web -o jsonpath='{.metadata.uid}')
  kubectl create -f - >/dev/null <<<'{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPSpace", "metadata": {"name": "default"}}' &&
    kubectl patch ipspace default --subresource status --type merge -p '{"status": {"pools": 1, "accepted": [
      {"pool": "web", "uid": "'"$pool_uid"'", "subnet": "10.55.0.0/24", "blockSize": 26}]}}' >/dev/null || return 1
  uid=$(kubectl -n kube-public get pod live -o jsonpath='{.metadata.uid}')
  web_uid=$(kubectl -n team-a get pod web-0 -o jsonpath='{.metadata.uid}')
  kubectl create -f - >/dev/null <<END
{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPBlock",
 "metadata": {"name": "10.55.0.0-26", "finalizers": ["ipam.berth.dev/in-use"]},
 "spec": {"space": "default", "pool": "web", "poolUID": "$pool_uid",
  "cidr": "10.55.0.0/26", "node": "worker-1"},
 "used": 4, "free": 60, "standby": [5],
 "allocations": {"1": "$(held live "$uid" 1)", "2": "$(held dead "${uid/?/0}-" 2)", "3": "! printer",
  "7": "$(held web-0 "$web_uid" 7 team-a)"}}
END
}

help_is_text() {
  "$bin/berthctl" show pools --help >"$work/help" && grep -aq "^Usage: berthctl show pools" "$work/help" &&
    refused grep -a "[[:cntrl:]]" "$work/help"
}

entry() { kubectl get ipblock 10.55.0.0-26 -o jsonpath="{.allocations.$1}"; }

# Runs check, which waits 1 s between its two reads: only this script changes objects, so 1 s is enough.
find_wrong() { berthctl check --settle 1 "$@"; }

# The API server accepts a range that ends before it starts, but the controller cannot read it.
unreadable_reservation() {
  local report code=0
  kubectl create -f - >/dev/null <<<'{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPReservation",
    "metadata": {"name": "backwards"}, "spec": {"addresses": ["10.55.0.9-10.55.0.5"]}}' || return 1
  report=$(find_wrong) || code=$?
  kubectl delete ipreservation backwards >/dev/null || return 1
  echo "$report"
  [[ $code == 1 && $report == "unreadable: IPReservation backwards"* ]]
}

# A range that ends before it starts makes the pool unreadable, but the pool exists.
unreadable_pool() {
  local report code=0
  kubectl patch ippool web --type merge -p '{"spec": {"ranges": ["10.55.0.9-10.55.0.1"]}}' >/dev/null || return 1
  report=$(find_wrong) || code=$?
  kubectl patch ippool web --type merge -p '{"spec": {"ranges": null}}' >/dev/null || return 1
  [[ $code == 1 && $report == *unreadable* && $report != *stray-block* ]]
}

# The page must contain everything that berthctl knows, and a browser must be able to show it. BERTH_MAP_PICTURE=docs/map.png
# makes the picture of docs/operations.md.
draws_page() {
  berthctl show map --pool web --html "$work/map.html" && "$root/e2e/map_page.py" "$work/map.html" ${BERTH_MAP_PICTURE:+--picture "$BERTH_MAP_PICTURE"} &&
    grep -q '10.55.0.2 orphan, pod kube-public/dead' "$work/map.html" || return 1
  ends 2 "cannot write" berthctl show map --html /absent/map.html
}

# Runs every example of the help. Exit code 1 is allowed: check finds something, or release refuses. The example with --netns
# is left out, because it needs a node with containers: e2e/reclaim.sh runs it.
examples_run() {
  local line code count=0 command
  for command in "" "show" "show map" "show nodes" "who" "why" "check" "release"; do
    # shellcheck disable=SC2086 # two words
    while read -r line; do
      [[ $line != *--netns* ]] || continue
      code=0
      (cd "$work" && bash -o pipefail -c "$line") </dev/null || code=$?
      ((code <= 1)) || { echo "$line: $code"; return 1; }
      count=$((count + 1))
    done < <(berthctl $command --help | sed -n '/^Examples:/,$p' | sed -n 's/^  //p')
  done
  ((count >= 18)) || { echo "only $count examples"; return 1; }
}

release_by_report() {
  local report code=0
  report=$(find_wrong -o json) || code=$?
  [[ $code == 1 ]] || { echo "check ended with $code"; return 1; }
  jq -e '.findings | length == 1 and .[0].kind == "pod-gone" and .[0].address == "10.55.0.2"' <<<"$report" || return 1
  berthctl release --report - <<<"$report" || return 1
  [[ $(entry 2) =~ ^'~ t='[0-9]+' f=0123456789ab-0000000000000002'$ ]] || { entry 2; return 1; }
}

"$root/e2e/cluster" up --dir "$work/cluster" --nodes 0 || fail_early "no cluster"
eval "$("$root/e2e/cluster" env --dir "$work/cluster")"
PATH=$bin:$PATH
prepare || fail_early "nothing is planted"

check "its help is text" help_is_text
check "kubectl finds it" ends 0 "Examples:" kubectl berth --help
check "a mistake is told" ends 2 "--colour" berthctl show map --colour
check "it shows pools" ends 0 "web    default   10.55.0.0/24" berthctl show pools
check "it shows blocks as YAML" ends 0 'block: "10.55.0.0-26"' berthctl show blocks -o yaml
check "it shows addresses as JSON" ends 0 '"pod": "kube-public/live"' berthctl show addresses -o json
check "it draws a map, without colours where nobody sees it" ends 0 " #?!.s" berthctl show map --pool web
check "its page is readable in a browser, also on a phone" draws_page
check "a pool that does not exist is named" ends 2 'no pool has the name "absent"' berthctl show blocks --pool absent
check "it tells an address that no pod gets" ends 0 "not assignable" berthctl who 10.55.0.0
check "without arguments it says where to begin" ends 0 "berthctl show map" berthctl
check "it tells who has an address" ends 0 kube-public/live berthctl who 10.55.0.1
check "it tells which address a pod has" ends 0 10.55.0.2 berthctl who kube-public/dead
check "it says when nobody has it" ends 2 "no block covers 10.66.0.1" berthctl who 10.66.0.1
check "it shows what each node has for pods" ends 0 \
  "worker-1   ipv4       shows 59, should show 59: 59 free + 0 held; pods request 0; 1 block" berthctl show nodes
check "and the same in figures" ends 0 '"wanted": 59' berthctl show nodes -o json
waiter waits 100
check "it tells what a pod waits for" ends 0 "pod team-a/waits waits for a node: it requests 100 ipv4, and 0 of 1 node could take the pod" \
  berthctl why team-a/waits
check "what its pool has" ends 0 "pool web has 250 of 254 addresses free, 3 of 4 blocks unclaimed, and admits 1 of 1 node" \
  berthctl why team-a/waits
check "and why a node does not take it" ends 0 "node worker-1 has no place for a pod: it has 2 pods, and its limit is 0; it has 59 ipv4 left" \
  berthctl why team-a/waits
check "it tells where a running pod's address is from" ends 0 "10.55.0.7 is of pool web, from block 10.55.0.0-26 of node worker-1" \
  berthctl why team-a/web-0
check "that the scheduler does not count that pod, and where to read on" ends 0 "docs/scheduling.md" berthctl why team-a/web-0
check "and that a pod does not exist" ends 2 'pod "team-a/absent" does not exist' berthctl why team-a/absent
kubectl -n team-a delete pod waits --grace-period=0 --force >/dev/null 2>&1
check "it does not release what a pod has" ends 1 "running pod kube-public/live" berthctl release 10.55.0.1
check "nor what is reserved" ends 1 "held by no pod" berthctl release 10.55.0.3
kubectl patch node worker-1 --subresource status --type merge -p '{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}' \
  >/dev/null
check "nor what a node has that is not Ready" ends 1 "which is not Ready" berthctl release 10.55.0.2
kubectl patch node worker-1 --subresource status --type merge -p '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}' \
  >/dev/null
check "it finds the entry of a pod that is gone and releases it by its report" release_by_report
kubectl patch ippool web --subresource status --type merge -p '{"status": {"used": "2"}}' >/dev/null
check "then nothing is wrong" ends 0 "nothing is wrong" find_wrong
check "it finds a reservation that cannot be read" unreadable_reservation
check "the examples of its help run" examples_run
pod stranger worker-1 10.55.0.9
check "it finds a pod that no entry knows" ends 1 "not-recorded: pod/kube-public/stranger 10.55.0.9" find_wrong
check "of a pool that it cannot read, it takes no block for a stray one" unreadable_pool
kubectl delete ippool web --wait=false >/dev/null
kubectl patch ippool web --type merge -p '{"metadata": {"finalizers": null}}' >/dev/null 2>&1
check "it finds a block without pool" ends 1 "stray-block: ipblock/10.55.0.0-26" find_wrong
check "it says when no API server answers" ends 2 "berthctl:" berthctl --kubeconfig /absent show pools

print_counts
