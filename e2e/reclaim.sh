#!/usr/bin/env bash
# Tests on a real node that the controller frees the addresses of pods without a DEL within 60 s, and never frees an address of
# a live pod. While pods end, the `berth` in the CNI folder is a program that answers DEL with success and does nothing. Tests
# this with running controllers, with controllers that start after the pods are gone, and with a pod that is deleted by force
# while its sandbox cannot end, because the sandbox's shim is stopped. Makes a cluster of one node for itself, installs berth there as users do, and takes it down.
# Ends with "N passed, N failed". Takes about four minutes. Needs root and build/image/berth.tar (make image).
#
#   e2e/reclaim.sh [BUILD_DIR]     default: build. BERTH_SWEEP=all: 100 pods per story instead of 10
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cluster=$root/e2e/cluster
build=$(cd "${1:-$root/build}" && pwd -P)
image=${BERTH_IMAGE_FILE:-$build/image/berth.tar}
pods=$([[ ${BERTH_SWEEP-} == all ]] && echo 100 || echo 10)
live=5
work=$(mktemp -d /tmp/berth-reclaim.XXXX)
dir=$work/cluster
netns_folder=$dir/n1/state/io.containerd.grpc.v1.cri/netns
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"

[[ -r $image ]] || fail_early "there is no $image: run \"make image\" first"
[[ -x $build/bin/berthctl ]] || fail_early "$build/bin/berthctl is missing: build it first (make)"
command -v jq >/dev/null || fail_early "jq is missing: apt-get install jq"

finish() {
  # Restore the plugin before the node's last pods end, so that it answers their DELs.
  [[ -n ${BERTH_NODE1_CNI_BIN_DIR:-} ]] && mend_plugin
  take_down "$dir"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

berth_system() { kubectl --namespace berth-system "$@"; }
# Starts the controllers, and copies their log into a file, because their pods end later.
start_controllers() {
  berth_system scale deployment/berth-controller --replicas=2 &&
    berth_system rollout status deployment/berth-controller --timeout=120s || return 1
  berth_system logs --follow --prefix --tail=-1 -l app.kubernetes.io/component=controller >>"$work/controllers.log" 2>&1 &
}
no_berth_pods() { equals "" berth_system get pods -l "app.kubernetes.io/component=$1" -o name; }
end_controllers() { berth_system scale deployment/berth-controller --replicas=0 && within 60 no_berth_pods controller; }
# Ends the agent's pods: a nodeSelector keeps them off every node until start_agent.
end_agent() {
  berth_system patch daemonset berth-agent --patch '{"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}}' &&
    within 60 no_berth_pods agent
}
start_agent() {
  berth_system rollout undo daemonset/berth-agent && berth_system rollout status daemonset/berth-agent --timeout=120s
}

# Prints the held entries as namespace/pod and UID.
holders() {
  kubectl get ipblocks -o json |
    jq -r '.items[].allocations[] | select((startswith("~") or startswith("!")) | not) | split(" ") | "\(.[0]) \(.[1])"'
}
held() { holders | wc -l; }
freed() { grep -c "orphan freed" "$work/controllers.log"; }
allocations() { kubectl get ipallocations -A -o name | wc -l; }
cooling_with_mark() { kubectl get ipblocks -o json | jq '[.items[].allocations[] | select(test("^~ t=.* f="))] | length'; }
names_of_web() { kubectl get pods -l app=web -o jsonpath='{.items[*].metadata.name}'; }
# event_names_one_of NAMES: succeeds if an event of a block names a freed address of one of these pods.
event_names_one_of() {
  kubectl get events --field-selector involvedObject.kind=IPBlock,reason=OrphansFreed -o json |
    jq -e --arg names "$1" '[.items[].message] | any(. as $text | $names | split(" ") | any(. as $name |
      $text | contains(" of default/" + $name)))'
}
# Succeeds if every running pod of the Deployment `live` has its entry.
live_pods_hold() {
  local pods missing
  pods=$(kubectl get pods -l app=live -o json | jq -r '.items[].metadata | "\(.namespace)/\(.name) \(.uid)"' | sort) || return 1
  equals "$live" wc -l <<<"$pods" || return 1
  missing=$(comm -23 - <(holders | sort) <<<"$pods")
  [[ -z $missing ]] || { echo "without entry: $missing"; return 1; }
}

# deployment NAME REPLICAS
deployment() {
  kubectl apply -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: $2
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: pause, image: "berth.test/pause:1"}]
END
}
scale() { kubectl scale deployment/web --replicas="$1" && kubectl rollout status deployment/web --timeout=300s; }
no_pods() { equals "" kubectl get pods -l app=web -o name; }

# put_plugin FILE: makes FILE the runtime's `berth`, in one step, so that the runtime never finds half a file.
put_plugin() {
  install -m 755 "$1" "$BERTH_NODE1_CNI_BIN_DIR/berth.new" && mv "$BERTH_NODE1_CNI_BIN_DIR/berth.new" "$BERTH_NODE1_CNI_BIN_DIR/berth"
}
# break_plugin: from now on DELs do nothing. mend_plugin: the plugin works again.
break_plugin() {
  printf '#!/bin/sh\nexit 0\n' >"$work/nothing"
  put_plugin "$work/nothing"
}
mend_plugin() { [[ ! -e $work/berth ]] || put_plugin "$work/berth"; }

set_up() {
  "$cluster" up --dir "$dir" --nodes 1 --cni-conf none --image "$image" --audit || fail_early "no cluster"
  eval "$("$cluster" env --dir "$dir")"
  {
    kubectl apply -k "$root/crds" &&
      kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s &&
      kubectl apply -k "$root/install/overlays/example-bridge" && kubectl apply -f "$root/install/overlays/example-bridge/pools.yaml" &&
      look_for_netns && start_controllers && kubectl wait --for=condition=Ready ippool --all --timeout=60s &&
      kubectl wait --for=condition=Ready node/n1 --timeout=60s
  } >"$work/install.log" 2>&1 || { cat "$work/install.log"; fail_early "berth is not installed"; }
  cp "$BERTH_NODE1_CNI_BIN_DIR/berth" "$work/berth"
  deployment live $live >/dev/null
  kubectl rollout status deployment/live --timeout=120s >/dev/null || fail_early "no pods"
  deployment web 0 >/dev/null
}

# story NAME HOW_TO_DELETE: starts pods, and ends them without a DEL.
story() {
  local name=$1 before names limit=60
  # With force, nobody reports the end of the sandboxes, so the controller waits ten minutes.
  [[ $1 == force ]] && limit=700
  shift
  before=$(freed)
  check "$name: $pods pods run" scale "$pods"
  check "$name: each has two addresses" soon equals $((2 * (pods + live))) held
  check "$name: and an IPAllocation" soon equals $((pods + live)) allocations
  names=$(names_of_web)
  break_plugin
  check "$name: they end" "$@"
  [[ $name == late ]] && start_controllers >/dev/null
  check "$name: within $limit s all are given back" within "$limit" equals $((2 * live)) held
  check "$name: their IPAllocations are gone" soon equals $live allocations
  check "$name: by the controller, each once" soon equals $((before + 2 * pods)) freed
  check "$name: and events of the blocks tell of it" soon event_names_one_of "$names"
  mend_plugin
  check "$name: live pods have theirs" live_pods_hold
}
# The freed addresses of all stories are cooling at the same time.
swept() {
  check "the agent sweeps what has rested" within 90 equals 0 cooling_with_mark
  check "and has not written it again" equals $((2 * live)) held
}
scale_down() { kubectl scale deployment/web --replicas=0 && within 120 no_pods; }
scale_down_without_controllers() { end_controllers && scale_down; }
force() {
  kubectl delete deployment web --cascade=orphan && kubectl delete replicasets -l app=web --cascade=orphan &&
    kubectl delete pods -l app=web --force --grace-period=0 && within 60 no_pods
  deployment web 0
}

# The API server applies a quota a moment after its creation.
refused_by_quota() {
  kubectl delete ipallocations -n default --all
  grep -q "write failed object=IPAllocation/default/live.*quota: few" "$work/controllers.log"
}

# IPAllocations are deleted, and a quota refuses new IPAllocations.
allocations_come_back() {
  kubectl delete ipallocations -n default --all
  check "deleted IPAllocations of live pods are made again" soon equals $live allocations
  kubectl apply -f - <<END
{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"count/ipallocations.ipam.berth.dev": "0"}}}
END
  check "with a quota in the way none is made, and that is said" soon refused_by_quota
  check "pods start all the same" scale 3
  check "and end" scale 0
  kubectl delete resourcequota few
  check "without it they are made again" within 60 equals $live allocations
}

# The entries of a live pod are removed while its node has no agent.
entries_come_back() {
  local pod block
  end_agent >/dev/null
  pod=$(kubectl get pods -l app=live -o jsonpath='{.items[0].metadata.name}')
  for block in $(kubectl get ipblocks -o json | jq -r --arg pod "default/$pod " \
    '.items[] | select(any(.allocations[]; startswith($pod))).metadata.name'); do
    kubectl get ipblock "$block" -o json | jq --arg pod "default/$pod " \
      '.allocations |= with_entries(select(.value | startswith($pod) | not)) | .used = (.allocations | length)' |
      kubectl replace -f -
  done
  check "entries of a live pod are removed by hand" refused live_pods_hold
  check "without an agent the controller puts them back" within 90 live_pods_hold
  check "both of them" soon equals $((2 * live)) held
  check "and tells of it" grep -q "entry put back.*pod=default/$pod" "$work/controllers.log"
  check "the agent comes back" start_agent
}

# A pod is deleted by force while the shim of its sandbox is stopped, so that no program can end the sandbox. After ten minutes the
# controller would free the pod's addresses: the test writes the same entries at once. Every other address of the pool is reserved,
# so the next pod needs the address of this pod.
pod() { # NAME
  kubectl apply -f - <<END
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1"},
 "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "pause", "image": "berth.test/pause:1"}]}}
END
}
address_of() { kubectl get pod "$1" -o jsonpath='{.status.podIP}'; } # POD
entries_of() { # POD: block, offset and text
  kubectl get ipblocks -o json | jq -r --arg pod "default/$1 " \
    '.items[] | .metadata.name as $block | .allocations | to_entries[] | select(.value | startswith($pod)) | "\($block)\t\(.key)\t\(.value)"'
}
name_netns() { entries_of "$1" | grep -c " ns="; } # POD
reserve_all_but() { # ADDRESS
  local others
  others=$(python3 -c 'import ipaddress as i, json, sys
print(json.dumps([str(n) for n in i.ip_network("10.55.0.0/20").address_exclude(i.ip_network(sys.argv[1]))]))' "$1") || return 1
  kubectl apply -f - <<END
{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPReservation", "metadata": {"name": "others"}, "spec": {"addresses": $others}}
END
}
# The number of addresses in the blocks of pods-v4 that are neither held nor reserved.
unused() {
  kubectl get ipblocks -o json |
    jq '[.items[] | select(.spec.pool == "pods-v4") | 64 - ([.allocations[] | select(startswith("~") | not)] | length)] | add'
}
reserved() { kubectl get ipblocks -o json | jq '[.items[].allocations[] | select(startswith("!"))] | length'; }

shim_of() { # POD: the PID of the shim of the pod's sandbox
  local uid sandbox
  uid=$(kubectl get pod "$1" -o jsonpath='{.metadata.uid}') || return 1
  sandbox=$(ctr containers list --quiet "labels.\"io.kubernetes.pod.uid\"==$uid,labels.\"io.cri-containerd.kind\"==sandbox")
  [[ $sandbox =~ ^[0-9a-f]{64}$ ]] || { echo "pod $1 has no single sandbox: $sandbox" >&2; return 1; }
  pgrep -f "^[^ ]*containerd-shim-runc-v2 .*-id $sandbox -address $dir/n1/containerd.sock"
}
process_state() { cut -d' ' -f3 "/proc/$1/stat"; } # PID
stop_process() { [[ $1 =~ ^[0-9]+$ ]] && kill -STOP "$1" && within 10 equals T process_state "$1"; } # PID

free_as_controller() { # POD
  local block offset text mark
  mark="~ t=$((($(date +%s) + 60) * 1000)) f="
  while IFS=$'\t' read -r block offset text; do
    jq -nc --arg offset "$offset" --arg text "$mark$(cut -d' ' -f3 <<<"$text") $text" '{allocations: {($offset): $text}}' |
      kubectl patch ipblock "$block" --type=merge --patch-file=/dev/stdin || return 1
  done < <(entries_of "$1")
}
in_use_is_told_of() {
  kubectl get events --field-selector involvedObject.kind=IPBlock,reason=FreedInUse -o json |
    jq -e --arg pod "default/$1 on node n1" '.items[] | select(.message | contains($pod))'
}
# The controller reports only entries that it knew as orphans, and may learn of the pod's end after the entry is gone. So free
# the entry again.
freed_again_is_told_of() { free_as_controller "$1" && within 10 in_use_is_told_of "$1"; }
freed_in_use_count() {
  curl -sf --unix-socket "$dir/n1/run/berth/agent.sock" http://berth/metrics | sed -n 's/^berth_agent_freed_entries_in_use_total //p'
}
in_use_is_counted() { (($(freed_in_use_count) >= 2)); }
in_use_is_logged() { berth_system logs --tail=-1 -l app.kubernetes.io/component=agent | grep "container that still exists"; }
waits_for_address() { # POD
  kubectl get events --field-selector "involvedObject.name=$1,reason=FailedCreatePodSandBox" -o json |
    jq -e '.items[] | select(.message | contains("pool pods-v4 is exhausted"))'
}
netns_has() { # FILE ADDRESS
  nsenter --mount="/proc/$BERTH_NODE1_MOUNTS_PID/ns/mnt" nsenter --net="$1" ip -o address show | grep -F " $2/"
}
hung() {
  local entries address netns shim
  pod hung
  check "hung: a pod runs" kubectl wait --for=condition=Ready pod/hung --timeout=120s
  check "hung: its entries name its network namespace" soon equals 2 name_netns hung
  entries=$(entries_of hung)
  address=$(address_of hung)
  netns=$netns_folder/$(sed -nE '1s/.* ns=([^ ]+).*/\1/p' <<<"$entries")
  check "hung: every other address is reserved" reserve_all_but "$address"
  check "hung: no address is left" within 90 equals 0 unused
  shim=$(shim_of hung)
  check "hung: the shim of its sandbox is stopped" stop_process "$shim"
  check "hung: it is deleted by force" kubectl delete pod hung --force --grace-period=0
  pod next >/dev/null
  check "hung: its addresses are freed" free_as_controller hung
  check "hung: the agent writes its entries again" promptly 30 equals "$entries" entries_of hung
  check "hung: an event names pod and node" soon freed_again_is_told_of hung
  check "hung: the agent counts it" soon in_use_is_counted
  check "hung: the agent's log says why" soon in_use_is_logged
  check "hung: the next pod waits for an address" soon waits_for_address next
  check "hung: the sandbox still has the address" netns_has "$netns" "$address"
  check "hung: the pod that is gone still holds the address" soon equals "$entries" entries_of hung
  check "hung: the next pod has no address" equals "" address_of next
  check "hung: the shim runs on" kill -CONT "$shim"
  check "hung: the next pod gets this very address" promptly 60 equals "$address" address_of next
  check "hung: the sandbox has ended before" refused test -e "$netns"
  check "hung: the pod that is gone holds nothing" equals "" entries_of hung
  kubectl delete pod next >/dev/null
  kubectl delete ipreservation others >/dev/null
  check "hung: no address is reserved any more" within 90 equals 0 reserved
  check "hung: the next pod's addresses are free" soon equals $((2 * live)) held
}

# Gives the agent the folder in which this node's container runtime keeps network namespaces.
look_for_netns() {
  berth_system patch daemonset berth-agent --patch "{\"spec\": {\"template\": {\"spec\": {\"volumes\": [
    {\"name\": \"netns\", \"hostPath\": {\"path\": \"$netns_folder\"}}]}}}}"
}

set_up
entries_come_back
hung
story seen scale_down
story late scale_down_without_controllers
[[ ${BERTH_SWEEP-} != all ]] || story force force
allocations_come_back  # while the freed addresses are cooling
swept
check "pods, record and what the network namespaces have agree" \
  nsenter --mount="/proc/$BERTH_NODE1_MOUNTS_PID/ns/mnt" "$build/bin/berthctl" check --settle 20 --node n1 \
  --netns "$netns_folder"
"$root/e2e/rights.sh" note "$dir" "$build/rights/reclaim"
print_counts
