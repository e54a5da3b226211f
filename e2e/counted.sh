#!/usr/bin/env bash
# Tests on real nodes that the scheduler counts addresses: if pods request more addresses than are left, the pods wait,
# unschedulable and with the reason, and run once there are addresses; and no kubelet ever rejects a pod because of an address
# count. Makes a cluster of three nodes for itself, installs berth and the overlay `requests` there as users do, and takes it
# down. Ends with "N passed, N failed". Takes about four minutes. Needs root and build/image/berth.tar (make image).
#
#   e2e/counted.sh [BUILD_DIR [SCENARIO...]]     default: build, and the scenarios that take four minutes together
#
# BERTH_SWEEP=all: repeats bursts 20 times instead of 2, and adds scenarios in which a pool is disabled, users edit address
# counts and delete pools, and controllers die, and a random walk: 50 minutes in all. BERTH_SEED: the seed of the walk.
# BERTH_STEPS: how many steps the walk has, default: 500.
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cluster=$root/e2e/cluster
build=$(cd "${1:-$root/build}" && pwd -P)
image=${BERTH_IMAGE_FILE:-$build/image/berth.tar}
sweep=$([[ ${BERTH_SWEEP-} == all ]] && echo yes)
work=$(mktemp -d /tmp/berth-counted.XXXX)
dir=$work/cluster
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"
# shellcheck source=counted_pods.sh
source "$root/e2e/counted_pods.sh"

[[ -r $image ]] || fail_early "there is no $image: run \"make image\" first"
command -v jq >/dev/null || fail_early "jq is missing: apt-get install jq"

finish() {
  ((failed == 0)) || cp -r --parents "$dir"/n?/pod-logs "$work" 2>/dev/null
  take_down "$dir"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Called after a failed check, because nothing of the cluster is left after the suite.
show_state() {
  kubectl get nodes -o json | jq -r '.items[] | "\(.metadata.name) \(.status.allocatable | with_entries(select(.key | startswith("ipam"))))"'
  kubectl get pods -A -o wide | grep -v berth-agent | cut -c 1-150
  kubectl get ippools,ipblocks
  kubectl get events -A --sort-by=.lastTimestamp -o custom-columns=AT:.lastTimestamp,OF:.involvedObject.name,WHY:.reason,SAYS:.message |
    tail -n 20 | cut -c 1-220
  tail -q -n 15 "$dir"/n?/pod-logs/berth-system_berth-controller*/berth/*.log
}

# --- The cluster ------------------------------------------------------------------------------------------------------

pods_get_requests() {
  kubectl run asks --image=none --dry-run=server -o json | jq -e '.spec.containers[0].resources.requests["ipam.berth.dev/ipv4"] == "1"'
}

set_up() {
  "$cluster" up --dir "$dir" --nodes 3 --cni-conf none --image "$image" --audit || fail_early "no cluster"
  eval "$("$cluster" env --dir "$dir")"
  {
    kubectl apply -k "$root/crds" &&
      kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s &&
      kubectl apply -k "$root/install/overlays/example-bridge" &&
      pool pods-v4 '{"subnet": "10.55.0.0/24", "gateway": "10.55.0.1"}' &&
      pool pods-v6 '{"subnet": "2001:db8:55::/112", "gateway": "2001:db8:55::1"}' &&
      kubectl wait --for=condition=Ready node --all --timeout=120s &&
      kubectl create namespace both && kubectl annotate namespace both ipam.berth.dev/resources=ipv4,ipv6 &&
      label_node n1 && label_node n2 &&
      kubectl wait --for=jsonpath='{.status.allocatable.ipam\.berth\.dev/ipv4}' node --all --timeout=60s &&
      kubectl apply -k "$root/install/overlays/requests" && soon pods_get_requests
  } >"$work/install.log" 2>&1 || { cat "$work/install.log"; show_state; fail_early "berth is not installed"; }
}

# Gives a Node the labels that it has in this suite. The role is for nodes whose Node is new.
label_node() {
  local labels=(node-role.kubernetes.io/control-plane=)
  [[ $1 != n1 ]] || labels+=(berth.test/first=yes)
  [[ $1 == n3 ]] || labels+=(berth.test/two=yes)
  kubectl label --overwrite node "$1" "${labels[@]}"
}
first='"nodeSelector": {"matchLabels": {"berth.test/first": "yes"}}'
two='"nodeSelector": {"matchLabels": {"berth.test/two": "yes"}}'
gateway='"gateway": "10.55.0.1"'
# Gives node n1 alone a pool with SUBNET, and waits until its address count is ADDRESSES.
one_node() { # SUBNET ADDRESSES
  clean && replace_pool pods-v4 "{\"subnet\": \"$1\", $gateway, $first}" && no_events && within 60 number_is "$2" n1 ipv4
}

# kubelet_again NODE PODS: kills and starts the node's kubelet, and waits until it knows PODS pods.
kubelet_again() {
  "$cluster" stop "kubelet-$1" --kill --dir "$dir" && "$cluster" start "kubelet-$1" --dir "$dir" && within 60 kubelet_knows "$1" "$2"
}
kubelet_knows() {
  local count
  count=$(kubectl get --raw "/api/v1/nodes/$1/proxy/pods" | jq '[.items[] | select(.metadata.labels.app)] | length') || return 1
  ((count >= $2)) || { echo "it knows $count"; return 1; }
}
# Whether the kubelet has reported Ready since TIME. The kubelet does so after it has admitted or rejected its pods.
ready_since() { # NODE TIME
  kubectl get node "$1" -o json | jq -e --arg time "$2" '.status.conditions[] | select(.type == "Ready" and .status == "True")
    | .lastHeartbeatTime >= $time'
}

# --- Scenarios --------------------------------------------------------------------------------------------------------

one_pool_one_node() {
  check "one node has a /30 with a gateway: room for 1" one_node 10.55.0.0/30 1
  check "the others show no number" equals "" kubectl get nodes n2 n3 -o jsonpath='{.items[*].status.allocatable.ipam\.berth\.dev/ipv4}'
  deployment web 4 "" >/dev/null
  check "of 4 pods exactly 1 runs, the others wait with the reason" soon pods_are "1 run, 3 wait" ipv4 web
  check "and that stays" stays 3 pods_are "1 run, 3 wait" ipv4 web
  check "a /29 with a gateway: room for 5" one_node 10.55.0.0/29 5
  deployment web 8 "" >/dev/null
  check "of 8 pods exactly 5 run" soon pods_are "5 run, 3 wait" ipv4 web
  check "and that stays" stays 3 pods_are "5 run, 3 wait" ipv4 web
  deployment host 10 "" '{"hostNetwork": true, "nodeSelector": {"berth.test/first": "yes"}}' >/dev/null
  check "10 pods with the host's network run beside them" soon pods_are "10 run" ipv4 host
  check "after which exactly 5 run" pods_are "5 run, 3 wait" ipv4 web
  check "all are deleted" clean
  deployment host 10 "" '{"hostNetwork": true, "nodeSelector": {"berth.test/first": "yes"}}' >/dev/null
  check "with the 10 there first" soon pods_are "10 run" ipv4 host
  deployment web 8 "" >/dev/null
  check "exactly 5 run as well" soon pods_are "5 run, 3 wait" ipv4 web
  check "numbers are right" soon numbers_are_right
  check "no pod was rejected, and none was without an address" nothing_went_wrong
}

classic() {
  check "classic: a node with room for 5" one_node 10.55.0.0/29 5
  pod first-1 3 >/dev/null
  check "a pod that requests 3 runs" soon pods_are "1 run" ipv4 first
  pod second-1 3 >/dev/null
  check "one that asks for more than is left waits" soon pods_are "1 wait" ipv4 second
  check "and goes on waiting" stays 3 pods_are "1 wait" ipv4 second
  kubectl delete pod first-1 >/dev/null
  check "it runs promptly after the other has gone" promptly 5 pods_are "1 run" ipv4 second
  check "an address of the pool is excluded" patch_pool pods-v4 '{"exclude": ["10.55.0.4-10.55.0.6"]}'
  check "the number goes, as less is left than is requested" promptly 40 number_is none n1 ipv4
  pod third-1 1 >/dev/null
  check "one that needs what is excluded waits" soon pods_are "1 wait" ipv4 third
  patch_pool pods-v4 '{"exclude": []}' >/dev/null
  check "it runs promptly after that is in the pool again" promptly 5 pods_are "1 run" ipv4 third
  check "no pod was rejected, and none was without an address" nothing_went_wrong
}

bursts() {
  local count free i
  count=$([[ $sweep ]] && echo 20 || echo 2)
  clean >/dev/null
  check "bursts: two nodes have a block of a pool each" replace_pool pods-v4 "{\"subnet\": \"10.55.0.0/28\", \"blockSize\": 29, $gateway, $two}"
  no_events >/dev/null
  free=13
  check "$free addresses are free" soon equals $free free_in pods-v4
  check "and counted" soon room_is $free
  deployment web 0 "" >/dev/null
  for ((i = 1; i <= count; i++)); do
    scale web $((free + i % 3 + 1)) >/dev/null
    check "burst $i: of $free + $((i % 3 + 1)) pods exactly $((i % 3 + 1)) wait" soon pods_are "$free run, $((i % 3 + 1)) wait" ipv4 web
    check "burst $i: and that stays" stays 2 pods_are "$free run, $((i % 3 + 1)) wait" ipv4 web
    scale web 0 >/dev/null
    check "burst $i: all go" within 90 pods_are "" ipv4 web
  done
  check "numbers are right" soon numbers_are_right
  check "no pod was rejected, and none was without an address" nothing_went_wrong
}
# Prints the sum of all nodes' address counts.
room() { kubectl get nodes -o json | jq '[.items[].status.allocatable["ipam.berth.dev/ipv4"] // "0" | tonumber] | add'; }
room_is() { equals "$1" room; }

# restarts WHAT PODS: tests a restart of n1's kubelet.
restarts() {
  local since
  since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  check "$1: the kubelet is killed and started" kubelet_again n1 "$2"
  check "$1: it is ready" soon ready_since n1 "$since"
  check "$1: its pods go on" stays 3 pods_are "$2 run" ipv4 full
  check "$1: none was rejected" nothing_rejected
}
kubelets() {
  local i
  check "kubelets: a node with room for 5" one_node 10.55.0.0/29 5
  for i in 1 2 3 4 5; do pod "full-$i" "" >/dev/null; done
  check "5 pods fill it" soon pods_are "5 run" ipv4 full
  restarts "full" 5
  patch_pool pods-v4 '{"exclude": ["10.55.0.2-10.55.0.4"]}' >/dev/null
  restarts "full, and addresses of pods are excluded" 5
  kubectl delete pod full-1 full-2 >/dev/null
  patch_pool pods-v4 '{"exclude": ["10.55.0.0/29"]}' >/dev/null
  restarts "while the pool shrinks" 3
  check "the number follows: 3" promptly 40 number_is 3 n1 ipv4
  patch_pool pods-v4 '{"exclude": []}' >/dev/null
  check "room for 5 again" promptly 10 number_is 5 n1 ipv4
  # The pod requests more addresses than it has. Without free addresses, the node's pods request more than the node has.
  pod full-more 2 >/dev/null
  check "a pod that requests 2 and has 1 address" soon pods_are "4 run" ipv4 full
  patch_pool pods-v4 '{"exclude": ["10.55.0.0/29"]}' >/dev/null
  check "with nothing free the node shows no number" promptly 40 number_is none n1 ipv4
  check "an event of the node says so" soon event_of_node n1 AddressesNotCounted
  restarts "without a number" 4
  check "a pod waits meanwhile" waits_meanwhile
  patch_pool pods-v4 '{"exclude": []}' >/dev/null
  check "the number is back" promptly 15 number_is 5 n1 ipv4
  check "an event of the node says so, too" soon event_of_node n1 AddressesCounted
  kubectl delete pod full-more >/dev/null
  kubectl delete pod late-1 --ignore-not-found >/dev/null
  for i in 6 7; do pod "full-$i" "" >/dev/null; done
  check "5 pods fill the node again" soon pods_are "5 run" ipv4 full
  check "it loses its power and comes back" power n1 off on
  check "all 5 pods run" within 120 pods_are_again 5
  check "none was rejected" nothing_rejected
  check "numbers are right" soon numbers_are_right
}
waits_meanwhile() { pod late-1 1 && soon pods_are "1 wait" ipv4 late; }
restarted() {
  kubectl get pods -l app=full -o json | jq '[.items[] | select(any(.status.containerStatuses[]; .ready and .restartCount > 0))] | length'
}
# Succeeds if $1 pods run, with containers that have started after the reboot.
pods_are_again() {
  pods_are "$1 run" ipv4 full || return 1
  equals "$1" restarted
}
power() { "$root/e2e/scenarios/power.py" "$dir" "$@"; } # NODE off, NODE on or NODE off on

disabled() {
  local i bound
  check "disabled: a node with room for 5" one_node 10.55.0.0/29 5
  for i in 1 2 3 4 5 6 7 8; do pod "web-$i" "" >/dev/null; done
  check "of 8 pods 5 run" soon pods_are "5 run, 3 wait" ipv4 web
  patch_pool pods-v4 '{"disabled": true}' >/dev/null
  check "the pool is disabled" kubectl wait --for=condition=Ready=false ippool/pods-v4 --timeout=60s
  end_one
  sleep 10
  bound=$(bound_pods)
  # Each pod that ends frees an address of a disabled pool, which gives no address any more.
  for i in 1 2 3 4; do
    end_one
    check "10 s later holder $i ends, and nothing takes its place" stays 1 no_others_than "$bound"
  done
  check "10 s later it is so, too" stays 10 no_others_than "$bound"
  check "no pod was rejected" nothing_rejected
  patch_pool pods-v4 '{"disabled": false}' >/dev/null
  check "once it is enabled all that are left run" soon pods_are "3 run" ipv4 web
}
bound_pods() { kubectl get pods -l app=web -o json | jq -r '.items[] | select(.spec.nodeName).metadata.name' | sort; }
end_one() { kubectl delete pod "$(kubectl get pods -l app=web --field-selector=status.phase=Running -o jsonpath='{.items[0].metadata.name}')" >/dev/null; }
no_others_than() { equals "" comm -23 <(bound_pods) - <<<"$1"; }

third_node() {
  clean >/dev/null
  check "third: a pool of 2 blocks, which two nodes have" replace_pool pods-v4 "{\"subnet\": \"10.55.0.0/28\", \"blockSize\": 29, $gateway, $two}"
  check "all of it is counted there" soon room_is 13
  no_events >/dev/null
  patch_pool pods-v4 '{"nodeSelector": null}' >/dev/null
  deployment web 10 "" "$(on n3)" >/dev/null
  check "10 pods that fit only the third node run promptly" promptly 60 pods_are "10 run" ipv4 web
  check "numbers are right" soon numbers_are_right
  deployment web 15 "" >/dev/null
  check "on any node all 13 addresses are used" within 90 pods_are "13 run, 2 wait" ipv4 web
  check "no pod was rejected" nothing_rejected
}

both_families() {
  clean >/dev/null
  check "both: IPv4 is plenty" replace_pool pods-v4 "{\"subnet\": \"10.55.0.0/24\", $gateway, $first}"
  check "and IPv6 is not" replace_pool pods-v6 "{\"subnet\": \"2001:db8:55::/125\", \"gateway\": \"2001:db8:55::1\", $first}"
  no_events >/dev/null
  local free
  free=$(kubectl get ippool pods-v6 -o jsonpath='{.status.free}')
  check "the node has room for $free" promptly 60 number_is "$free" n1 ipv6
  check "and for more of IPv4" refused number_is "$free" n1 ipv4
  deployment web $((free + 2)) "" "" both >/dev/null
  check "of pods that request both so many run, and the others wait for IPv6" soon pods_are "$free run, 2 wait" ipv6 web both
  check "and that stays" stays 3 pods_are "$free run, 2 wait" ipv6 web both
  check "numbers are right" soon numbers_are_right
  check "no pod was rejected, and none was without an address" nothing_went_wrong
  clean >/dev/null
  replace_pool pods-v6 '{"subnet": "2001:db8:55::/112", "gateway": "2001:db8:55::1"}' >/dev/null 2>&1
}

edits() {
  check "edits: a node with room for 5" one_node 10.55.0.0/29 5
  pod web-1 "" >/dev/null
  pod web-2 "" >/dev/null
  check "2 pods run" soon pods_are "2 run" ipv4 web
  check "the number is edited to less than they request" number_by_hand n1 '"1"'
  check "it is right again promptly" promptly 10 number_is 5 n1 ipv4
  check "it is edited to more" number_by_hand n1 '"50"'
  check "it is right again promptly" promptly 40 number_is 5 n1 ipv4
  check "it is removed" number_by_hand n1 null
  check "and is back promptly" promptly 20 number_is 5 n1 ipv4
  check "no pod was rejected, and none was without an address" nothing_went_wrong
  check "the pods go" clean
  check "the last IPv4 pool is deleted" remove_pool pods-v4
  check "then no node shows the number" soon no_number ipv4
  check "but the other one" refused no_number ipv6
  check "and no key is left for it" equals 0 keys_of_ipv4
  pool pods-v4 "{\"subnet\": \"10.55.0.0/29\", $gateway, $first}" >/dev/null
  check "with a new pool it is there again" soon number_is 5 n1 ipv4
  check "numbers are right" soon numbers_are_right

  check "a pool of the same resource is for some namespaces only" pool other \
    '{"subnet": "10.57.0.0/24", "namespaceSelector": {"matchLabels": {"team": "other"}}}'
  check "it does not count" soon kubectl wait --for=condition=Counted=false ippool/other --timeout=1s
  check "and it says to give it a resource of its own" grep -F "Give this pool a spec.resource of its own" \
    <(kubectl get ippool other -o jsonpath='{.status.conditions[?(@.type=="Counted")].message}')
  remove_pool other >/dev/null

  check "controllers do not count any more" run_controllers '["--probe-socket=/run/probe/controller.sock", "--count=off"]'
  check "then no node shows a number of IPv4" soon no_number ipv4
  check "nor of IPv6" soon no_number ipv6
  check "and no key is left" equals 0 keys_of_ipv4
  check "and numbers are not right" refused numbers_are_right
  check "controllers count again" run_controllers '["--probe-socket=/run/probe/controller.sock"]'
  check "the number is back" soon number_is 5 n1 ipv4
  check "numbers are right" soon numbers_are_right
}
run_controllers() { # JSON: the arguments
  kubectl patch deployment berth-controller --namespace berth-system --patch \
    "{\"spec\": {\"template\": {\"spec\": {\"containers\": [{\"name\": \"berth\", \"args\": $1}]}}}}" &&
    kubectl rollout status deployment/berth-controller --namespace berth-system --timeout=120s
}

keys_of_ipv4() {
  kubectl get nodes -o json | jq '[.items[].status | .capacity, .allocatable | select(has("ipam.berth.dev/ipv4"))] | length'
}

# --- With BERTH_SWEEP=all ---------------------------------------------------------------------------------------------

# Kills the pod of the leading controller, and adds its name to `ended`.
end_leader() {
  local identity pod
  identity=$(kubectl get lease berth-controller --namespace berth-system -o jsonpath='{.spec.holderIdentity}')
  for pod in $(kubectl get pods --namespace berth-system -l app.kubernetes.io/component=controller -o name); do
    if [[ $identity ]] && kubectl logs --namespace berth-system "$pod" 2>/dev/null | grep -qF "identity=$identity"; then
      kubectl delete --namespace berth-system "$pod" --grace-period=0 --force --wait=false || return 1
      ended+=("$pod")
      return 0
    fi
  done
  return 1
}
some_pods() { # APP COUNT RANDOM
  kubectl get pods -l "app=$1" -o name | shuf -n "$2" --random-source=<(yes "$3")
}
leaders_die() {
  local end next ended=()
  clean >/dev/null
  check "leaders: two nodes have a block of a pool each" replace_pool pods-v4 "{\"subnet\": \"10.55.0.0/28\", \"blockSize\": 29, $gateway, $two}"
  check "all of it is counted" soon room_is 13
  no_events >/dev/null
  deployment web 15 "" >/dev/null
  end=$((SECONDS + 300))
  next=$SECONDS
  while ((SECONDS < end)); do
    if ((SECONDS >= next)); then
      end_leader >/dev/null 2>&1 && next=$((SECONDS + 10))
    fi
    # shellcheck disable=SC2046 # several words
    kubectl delete --wait=false $(some_pods web 3 "$SECONDS") >/dev/null 2>&1
    sleep 1
  done
  check "${#ended[@]} leaders died while pods came and went" test "${#ended[@]}" -ge 20
  check "each of them was another pod" equals "${#ended[@]}" number_of_names "${ended[@]}"
  check "no pod was rejected" nothing_rejected
  check "at rest 13 pods run" within 180 pods_are "13 run, 2 wait" ipv4 web
  check "numbers are right" soon numbers_are_right
}
number_of_names() { printf '%s\n' "$@" | sort -u | wc -l; }

walk() {
  local seed=${BERTH_SEED:-$(date +%s)} steps=${BERTH_STEPS:-500} step off="" powered=""
  RANDOM=$((seed % 32768))
  clean >/dev/null
  check "walk: a pool of 6 blocks" replace_pool pods-v4 "{\"subnet\": \"10.55.0.0/26\", \"ranges\": [\"10.55.0.0-10.55.0.47\"], \"blockSize\": 29, $gateway}"
  check "each node has a block of it" soon each_has_room
  # Otherwise the count of IPv6 would go down with each pod, which takes seconds.
  check "pods request both families" kubectl annotate namespace default ipam.berth.dev/resources=ipv4,ipv6
  no_events >/dev/null
  echo "BERTH_SEED=$seed"
  for ((step = 1; step <= steps; step += 25)); do
    check "numbers are right after each of the steps $step to $((step + 24))" walk_steps "$step" $((step + 24))
    check "and no pod was rejected" nothing_rejected
    no_events >/dev/null
  done
  check "each node went off that should" refused grep "kept its power" "$work/walk.log"
  check "all nodes come" node_comes
  for step in 1 2 3; do rm -f "$dir/n$step/static-pods/"*; done
  kubectl uncordon n1 n2 n3 >/dev/null
  patch_pool pods-v4 '{"disabled": false, "exclude": []}' >/dev/null
  check "all pods can go" clean
  # The controller frees the address of a pod 600 s after somebody deleted the pod by force, if the kubelet does not do so.
  check "and all addresses are free" within 700 equals 46 free_in pods-v4
  check "each node has room" within 120 each_has_room
  kubectl annotate namespace default ipam.berth.dev/resources- >/dev/null
  check "numbers are right" soon numbers_are_right
}
each_has_room() {
  kubectl get nodes -o json | jq -e 'all(.items[].status.allocatable; .["ipam.berth.dev/ipv4"] // "0" | tonumber > 0)'
}
walk_steps() { # FROM TO
  local step begun took longest=0 of
  for ((step = $1; step <= $2; step++)); do
    walk_step "$step" >>"$work/walk.log" 2>&1
    begun=$SECONDS
    within 120 numbers_are_right ${off:+"$off"} || { sed -n "/ $step: /,\$p" "$work/walk.log"; return 1; }
    took=$((SECONDS - begun))
    ((took <= longest)) || { longest=$took; of=$(grep -m 1 " $step: " "$work/walk.log"); }
  done
  printf '       the longest wait was %d s, after: %s\n' "$longest" "${of-}" >&"$checks_output"
}
has_controller_beside() { # NODE
  kubectl get pods --namespace berth-system -l app.kubernetes.io/component=controller -o json | jq -e --arg node "$1" \
    'any(.items[]; .spec.nodeName != $node and any(.status.conditions[]?; .type == "Ready" and .status == "True"))'
}
# Switches a node off, unless one is off already or the node runs the only controllers. The Node stays, or is deleted.
node_goes() { # NODE DELETE: 1 or 0
  [[ -z $off ]] || { echo "$off is off"; return; }
  has_controller_beside "$1" >/dev/null || { echo "no other node than $1 has a controller"; return; }
  power "$1" off || { echo "$1 kept its power"; return 1; }
  off=$1
  (($2 == 0)) || kubectl delete node "$1"
  echo "$1 went off, Node deleted: $2"
}
# Switches the node on that is off.
node_comes() {
  [[ $off ]] || { echo "all nodes are on"; return; }
  [[ $powered == "$off" ]] || power "$off" on || return 1
  powered=$off
  within 60 label_node "$off" || return 1
  echo "$off came"
  off=
  powered=
}
walk_step() {
  local node=n$((RANDOM % 3 + 1)) name=walk-$1 random=$RANDOM
  printf '%s %s: ' "$(date +%T)" "$1"
  case $((RANDOM % 23)) in
    0 | 1 | 2 | 3 | 4 | 5) pod "$name" "" ;;
    6) pod "$name" $((RANDOM % 3 + 2)) ;;
    7) pod "$name" "" "$(on "$node")" ;;
    8) pod_json "" | jq --arg name "$name" '. + {apiVersion: "v1", kind: "Pod",
          metadata: {name: $name, labels: {app: "walk", "ipam.berth.dev/requests": "off"}}}' | kubectl apply -f - ;;
    9) pod_json "" | jq --arg name "$name" '.spec += {restartPolicy: "Never"} | .spec.containers[0].args = ["addresses"]
          | {apiVersion: "batch/v1", kind: "Job", metadata: {name: $name}, spec: {template: (. + {metadata: {labels: {app: "walk"}}})}}' | kubectl apply -f - ;;
    # Deletes as many pods as come, so that the nodes are not always full.
    10 | 11 | 12 | 13)
      # shellcheck disable=SC2046 # several words
      kubectl delete --wait=false $(some_pods walk $((random % 4 + 1)) "$random")
      ;;
    14) kubectl delete --wait=false --grace-period=0 --force "$(some_pods walk 1 "$random")" ;;
    15) pod_json "" | jq --arg name "$name" '. + {apiVersion: "v1", kind: "Pod", metadata: {name: $name, labels: {app: "static"}}}' \
      >"$dir/$node/static-pods/pod.json" && echo "static pod on $node" ;;
    16) rm -f "$dir/$node/static-pods/pod.json" && echo "no static pod on $node" ;;
    17) kubectl cordon "$node" ;;
    18) kubectl uncordon n1 n2 n3 ;;
    19) node_goes "$node" $((random % 2)) ;;
    20 | 21) node_comes ;;
    *) case $((RANDOM % 4)) in
        0) patch_pool pods-v4 "{\"exclude\": [\"10.55.0.$((RANDOM % 6 * 8))/29\"]}" ;;
        1) patch_pool pods-v4 '{"disabled": true}' ;;
        *) patch_pool pods-v4 '{"exclude": [], "disabled": false}' ;;
      esac ;;
  esac
}

# Prints the seconds of each scenario, because all scenarios together must not take more than five minutes.
scenarios=("${@:2}")
[[ ${scenarios[*]-} ]] || scenarios=(one_pool_one_node classic kubelets ${sweep:+disabled edits} bursts third_node both_families ${sweep:+leaders_die walk})
set_up
for scenario in "${scenarios[@]}"; do
  declare -F "$scenario" >/dev/null || fail_early "there is no scenario $scenario"
  began=$SECONDS
  "$scenario"
  echo "       $scenario took $((SECONDS - began)) s"
done
# Single scenarios do not use all rights.
(($# > 1)) || "$root/e2e/rights.sh" note "$dir" "$build/rights/counted"
print_counts
