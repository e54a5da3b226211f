# shellcheck shell=bash
# Sourced by counted.sh and extender.sh: makes pools and pods, and checks address counts on Nodes, pods and events.

# --- Pools and pods ---------------------------------------------------------------------------------------------------

# pool_json NAME SPEC: prints an IPPool. SPEC is JSON.
pool_json() {
  jq -n --arg name "$1" --argjson spec "$2" \
    '{apiVersion: "ipam.berth.dev/v1alpha1", kind: "IPPool", metadata: {name: $name}, spec: $spec}'
}
pool() { pool_json "$@" | kubectl create -f - && kubectl wait --for=condition=Ready "ippool/$1" --timeout=60s; }
# Requires: no pod has an address.
remove_pool() { kubectl delete ippool "$1" --timeout=90s; }
# replace_pool NAME SPEC: changes the pool, or deletes and creates it if the subnet changes. Then also deletes the bridges,
# because a bridge keeps the gateway of its first pool. Requires: no pod has an address.
replace_pool() {
  local index space
  ! pool_json "$@" | kubectl replace -f - || return 0
  remove_pool "$1" || return 1
  for ((index = 1; index <= BERTH_NODES; index++)); do
    space=BERTH_NODE${index}_NETNS
    nsenter --net="${!space}" ip link delete berth0 2>/dev/null
  done
  pool "$1" "$2"
}
patch_pool() { kubectl patch ippool "$1" --type=merge --patch "{\"spec\": $2}"; }
free_in() { kubectl get ippool "$1" -o jsonpath='{.status.free}'; }

on() { echo "{\"nodeSelector\": {\"kubernetes.io/hostname\": \"$1\"}}"; } # NODE: part of a pod's spec

# pod_json UNITS SPEC: prints a pod's spec. UNITS: how many ipv4 addresses the pod requests; "": the policy adds a request.
# SPEC is merged into the pod's spec.
pod_json() {
  jq -n --arg units "$1" --argjson more "${2:-null}" '{spec: ({terminationGracePeriodSeconds: 1,
    containers: [{name: "pause", image: "berth.test/pause:1"}
      + if $units == "" then {} else {resources: {limits: {"ipam.berth.dev/ipv4": $units}}} end]} + ($more // {}))}'
}
# pod NAME UNITS [SPEC]: creates a pod. Its label `app` is NAME up to the first "-".
pod() {
  pod_json "$2" "${3-}" | jq --arg name "$1" '. + {apiVersion: "v1", kind: "Pod", metadata: {name: $name, labels: {app: ($name | split("-")[0])}}}' |
    kubectl apply -f -
}
# deployment NAME REPLICAS UNITS [SPEC [NAMESPACE]]
deployment() {
  pod_json "$3" "${4-}" | jq --arg name "$1" --argjson replicas "$2" '{apiVersion: "apps/v1", kind: "Deployment", metadata: {name: $name},
      spec: {replicas: $replicas, selector: {matchLabels: {app: $name}}, template: (. + {metadata: {labels: {app: $name}}})}}' |
    kubectl apply --namespace "${5:-default}" -f -
}
scale() { kubectl scale "deployment/$1" --replicas="$2"; }

# pods_are WANT RESOURCE APP [NAMESPACE]: succeeds if the states of the app's pods are WANT, such as "5 run, 3 wait". A pod
# waits if it is bound to no node and the scheduler says that the resource is insufficient.
pods_are() {
  local got
  got=$(kubectl get pods --namespace "${4:-default}" -l "app=$3" -o json | jq -r --arg resource "ipam.berth.dev/$2" '[.items[] |
      if .metadata.deletionTimestamp then "end"
      elif .status.phase == "Running" then "run"
      elif .status.phase == "Pending" and .spec.nodeName then "are created on a node"
      elif .status.phase == "Pending" and any(.status.conditions[]?; .type == "PodScheduled" and .reason == "Unschedulable"
        and (.message | contains("Insufficient " + $resource + ",") or contains("Insufficient " + $resource + "."))) then "wait"
      else "are \(.status.phase) \(.status.reason // "")" end]
    | group_by(.) | map("\(length) \(.[0])") | join(", ")') || return 1
  [[ $got == "$1" ]] || { echo "wanted '$1', got '$got'"; return 1; }
}
no_pods() {
  local space
  for space in default both; do equals "" kubectl get pods --namespace "$space" -o name || return 1; done
}
# Deletes all events with one request per namespace, because kubectl takes 1 s for every few events.
no_events() {
  local space
  for space in default both berth-system; do kubectl delete --raw "/api/v1/namespaces/$space/events" || return 1; done
}
# Deletes everything of a scenario before the next scenario.
clean() {
  local space
  for space in default both; do kubectl delete deployments,jobs,pods --all --namespace "$space" --wait=false; done
  within 90 no_pods
}

# stays SECONDS COMMAND...: repeats the command for SECONDS; it must always succeed.
stays() {
  local end=$((SECONDS + $1))
  shift
  while ((SECONDS < end)); do
    "$@" || { echo "no longer: $*"; return 1; }
    sleep 0.5
  done
}

# --- Numbers ----------------------------------------------------------------------------------------------------------

# number_is WANT NODE RESOURCE: succeeds if the address count is WANT in capacity and in allocatable; none: in neither.
number_is() {
  local got
  got=$(kubectl get node "$2" -o json |
    jq -r --arg key "ipam.berth.dev/$3" '[.status.capacity, .status.allocatable | .[$key] // "none"] | unique | join(" and ")') || return 1
  [[ $got == "$1" ]] || { echo "wanted $1, got $got"; return 1; }
}
no_number() { # RESOURCE
  local node
  for node in n1 n2 n3; do number_is none "$node" "$1" || return 1; done
}
number_by_hand() { # NODE WHAT: JSON
  kubectl patch node "$1" --subresource=status --type=merge \
    --patch "{\"status\": {\"capacity\": {\"ipam.berth.dev/ipv4\": $2}, \"allocatable\": {\"ipam.berth.dev/ipv4\": $2}}}"
}
event_of_node() { # NODE REASON
  kubectl get events --field-selector "involvedObject.kind=Node,involvedObject.name=$1,reason=$2" -o name | grep -q .
}

# numbers_are_right [NODE...]: succeeds if each Node shows the address count that it should show (address_counts.py), and if the
# scheduler and the kubelets have done their work. NODE: a node that is switched off.
numbers_are_right() {
  local problems
  problems=$(kubectl get nodes,pods,ippools,ipblocks --all-namespaces -o json | python3 "$root/e2e/address_counts.py" "$@") || return 1
  [[ -z $problems ]] || { echo "$problems"; return 1; }
}

# nothing_happened REASONS: succeeds if no event and no failed pod has a reason that matches the regular expression.
nothing_happened() {
  local found
  found=$(kubectl get events --all-namespaces -o json | jq -r --arg reasons "$1" '.items[] | select((.reason // "") | test($reasons))
    | "\(.involvedObject.name): \(.reason): \(.message)"'
    kubectl get pods --all-namespaces -o json | jq -r --arg reasons "$1" '.items[] | select((.status.reason // "") | test($reasons))
    | "\(.metadata.name) \(.status.phase): \(.status.reason)"') || return 1
  [[ -z $found ]] || { echo "$found"; return 1; }
}
rejects='^OutOf|^UnexpectedAdmissionError'
nothing_rejected() { nothing_happened "$rejects"; }
nothing_went_wrong() { nothing_happened "$rejects|^FailedCreatePodSandBox"; }
