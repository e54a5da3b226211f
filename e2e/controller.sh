#!/usr/bin/env bash
# Tests berth-controller on a control plane of its own: acceptance, refusals, reservations, drains, two controllers at once,
# a killed and a hanging leader, a restarted API server, and that the controller writes only changes. Ends with "N passed, N
# failed". Takes about two and a half minutes.
#
#   e2e/controller.sh [BUILD_DIR]     default: build
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cluster=$root/e2e/cluster
build_dir=${1:-$root/build}
controller=$build_dir/bin/berth-controller
# shellcheck source=/dev/null
source "$root/e2e/tokens.sh"
work=$(mktemp -d /tmp/berth-controller.XXXX)
dir=$work/cluster
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"
pids=()

[[ -x $controller ]] || fail_early "$controller is missing: build it first (make)"
command -v jq >/dev/null || fail_early "jq is missing: apt-get install jq"

finish() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
  take_down "$dir"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# start NAME [OPTION...]: starts a controller with the rights of its service account. The controller logs to $work/NAME.log.
# Sets $pid.
start() {
  "$controller" --kubeconfig "$work/kubeconfig" --log-level debug "${@:2}" 2>>"$work/$1.log" &
  pid=$!
  pids+=("$pid")
}

# status NAME FILTER: prints what the jq filter selects from a pool.
status() { kubectl get ippool "$1" -o json | jq -r "$2"; }
ready() { status "$1" '.status.conditions[]? | select(.type == "Ready") | "\(.status)/\(.reason)"'; }
message() { status "$1" '.status.conditions[] | select(.type == "Ready") | .message'; }
says() { [[ $(message "$1") == *"$2"* ]] || { message "$1"; return 1; }; }
accepted() { kubectl get ipspace "${1:-default}" -o json | jq -r '[.status.accepted[].pool] | sort | join(",")'; }
entry() { kubectl get ipblock "$1" -o json | jq -r ".allocations[\"$2\"] // \"\""; }
gone() { equals "" kubectl get "$1" "$2" -o name --ignore-not-found; }
lease_holder() { kubectl -n berth-system get lease berth-controller -o jsonpath='{.spec.holderIdentity}'; }

# pool NAME SPEC
pool() {
  kubectl apply -f - <<END
{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "$1"}, "spec": $2}
END
}
# reservation NAME SPEC
reservation() {
  kubectl apply -f - <<END
{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPReservation", "metadata": {"name": "$1"}, "spec": $2}
END
}
# block POOL CIDR ALLOCATIONS: creates a block as a node does that claims it.
block() {
  local uid
  uid=$(status "$1" .metadata.uid)
  kubectl create -f - <<END
{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPBlock",
 "metadata": {"name": "${2//\//-}", "finalizers": ["ipam.berth.dev/in-use"]},
 "spec": {"space": "default", "pool": "$1", "poolUID": "$uid", "cidr": "$2", "node": "n1"},
 "used": $(jq -n "$3 | length"), "free": 0, "allocations": $3}
END
}
# set_entry BLOCK OFFSET ENTRY: writes an entry as a node does, by compare-and-swap. ENTRY is JSON; null removes the entry.
set_entry() {
  local object
  while :; do
    object=$(kubectl get ipblock "$1" -o json) || return 1
    if jq ".allocations[\"$2\"] = $3 | .allocations |= with_entries(select(.value != null))
        | .used = (.allocations | length)" <<<"$object" | kubectl replace -f -; then
      return 0
    fi
  done
}
held='"default/web-1 6f1d 0123456789ab-0123456789abcdef i=eth0 t=1799999999000"'

# Prints the reasons of a pool's events, which kubectl describe shows.
events_of() {
  kubectl get events --field-selector "involvedObject.kind=IPPool,involvedObject.name=$1" \
    -o jsonpath='{range .items[*]}{.type} {.reason}{"\n"}{end}'
}

acceptance() {
  pool good '{"subnet": "10.55.0.0/24", "gateway": "10.55.0.1"}'
  check "a pool is Ready promptly" promptly 2 equals True/Accepted ready good
  check "an event tells of it" soon equals "Normal Accepted" events_of good
  check "it has its finalizer" equals ipam.berth.dev/drain status good '.metadata.finalizers[0]'
  check "it says what is withheld" equals '["10.55.0.1"]' status good '.status.withheld | tojson'
  check "it says how it is cut and what it has" equals "26 253 253 0" \
    status good '.status | "\(.blockSize) \(.total) \(.free) \(.blocks)"'
  check "it says where blocks can be claimed" equals '["10.55.0.0/24"]' status good '.status.claimable | tojson'
  check "it is not exhausted" equals False status good '.status.conditions[] | select(.type == "Exhausted").status'
  check "the space knows it" equals "$(status good .metadata.uid)" \
    kubectl get ipspace default -o jsonpath='{.status.accepted[0].uid}'

  pool equal '{"subnet": "10.55.0.0/16"}'
  check "one that overlaps and is cut alike is Ready" soon equals True/Accepted ready equal
  check "the gateway of one is withheld from the other" equals '["10.55.0.1"]' status equal '.status.withheld | tojson'
  pool other '{"subnet": "10.55.4.0/24", "blockSize": 28}'
  check "one that overlaps and is cut otherwise is not" soon equals False/BlockSizeConflict ready other
  check "its message names the other pool" says other "overlaps pool equal (10.55.0.0/16)"
  check "an event warns of it" soon equals "Warning BlockSizeConflict" events_of other
  check "its message names the remedy" says other "create it with blockSize 26"
  check "those that were Ready stay so" equals True/Accepted ready equal
  check "it is not in the space's list" equals equal,good accepted
  check "it has no finalizer, so it can be deleted at once" equals 0 status other '.metadata.finalizers | length'
  pool blue '{"subnet": "10.55.4.0/24", "blockSize": 28, "space": "blue"}'
  check "in another space it is Ready" soon equals True/Accepted ready blue
  pool six '{"subnet": "2001:db8::/64"}'
  check "an IPv6 pool is Ready" soon equals True/Accepted ready six
  check "its counts are larger than 64 bits hold" equals 18446744073709551614 status six .status.free
  pool single '{"subnet": "10.77.0.7/32"}'
  check "a pool of one address is Ready" soon equals "True/Accepted" ready single
  check "and is cut into one block of one" equals 32 status single .status.blockSize
}

refusals() {
  pool backwards '{"subnet": "10.66.0.0/24", "ranges": ["10.66.0.9-10.66.0.3"]}'
  check "a range that runs backwards" soon equals False/InvalidRange ready backwards
  check "is told what to do" says backwards "swap the two addresses"
  pool overlap '{"subnet": "10.66.1.0/24", "ranges": ["10.66.1.2-10.66.1.9", "10.66.1.5"]}'
  check "ranges that overlap" soon equals False/InvalidRange ready overlap
  pool nothing '{"subnet": "10.66.2.0/24", "exclude": ["10.66.2.0/24"]}'
  check "a pool of which nothing is left" soon equals False/NothingAssignable ready nothing
  check "none of them is in the space's list" equals equal,good,single,six accepted
  pool backwards '{"subnet": "10.66.0.0/24", "ranges": ["10.66.0.3-10.66.0.9"]}'
  check "a corrected one becomes Ready" soon equals True/Accepted ready backwards
  pool off '{"subnet": "10.66.8.0/24", "disabled": true}'
  check "a disabled pool is not Ready" soon equals False/Disabled ready off
  check "but holds its range" equals backwards,equal,good,off,single,six accepted
  pool off '{"subnet": "10.66.8.0/24", "disabled": false}'
  check "enabled it is Ready" soon equals True/Accepted ready off
  kubectl delete ippool overlap nothing backwards off single --wait=false
  check "unused pools can be deleted" soon equals blue,equal,good,other,six \
    eval "kubectl get ippools -o json | jq -r '[.items[].metadata.name] | sort | join(\",\")'"
  check "and leave the list" equals equal,good,six accepted
}

reservations() {
  block good 10.55.0.0/26 "{\"3\": $held}"
  reservation r '{"addresses": ["10.55.0.3-10.55.0.5", "10.99.0.1"]}'
  check "a reservation is withheld from the pool" soon equals '["10.55.0.1","10.55.0.3-10.55.0.5"]' \
    status good '.status.withheld | tojson'
  check "and from the space, wherever it is" soon equals '["10.55.0.1","10.55.0.3-10.55.0.5","10.99.0.1"]' \
    eval "kubectl get ipspace default -o json | jq -c .status.withheld"
  check "a free address gets its entry" soon equals "! r" entry 10.55.0.0-26 4
  check "a held one stays its holder's" equals "${held//\"/}" entry 10.55.0.0-26 3
  check "the block counts both" equals 3 kubectl get ipblock 10.55.0.0-26 -o jsonpath='{.used}'
  block good 10.55.0.64/26 '{}'
  reservation r2 '{"addresses": ["10.55.0.70"]}'
  check "a block made meanwhile gets its entry" soon equals "! r2" entry 10.55.0.64-26 6
  set_entry 10.55.0.0-26 3 null
  check "an address that is given back gets its entry" soon equals "! r" entry 10.55.0.0-26 3
  kubectl delete ipreservation r
  check "with the reservation its entries go" soon equals "" entry 10.55.0.0-26 4
  check "and nothing of it is withheld" soon equals '["10.55.0.1","10.55.0.70"]' \
    status good '.status.withheld | tojson'
  check "the other reservation stays" equals "! r2" entry 10.55.0.64-26 6
  reservation brief '{"addresses": ["10.55.0.9"]}'
  check "a reservation without an end is entered" soon equals "! brief" entry 10.55.0.0-26 9
  reservation brief "{\"addresses\": [\"10.55.0.9\"], \"expires\": \"$(date -u -d '+5 seconds' +%FT%TZ)\"}"
  check "and goes at the end that it gets, while its object stays" soon equals "" entry 10.55.0.0-26 9
  check "the object stays" kubectl get ipreservation brief
  reservation typo '{"addresses": ["10.55.0.9-10.55.0.8"]}'
  kubectl delete ipreservation r2 brief
  sleep 2
  check "while one cannot be read nothing is given up" equals "! r2" entry 10.55.0.64-26 6
  kubectl delete ipreservation typo
  check "and then it is" soon equals "" entry 10.55.0.64-26 6
}

drains() {
  set_entry 10.55.0.0-26 3 "$held"
  kubectl delete ippool good --wait=false
  check "a deleted pool is not Ready" soon equals False/Deleting ready good
  check "its empty block goes" soon gone ipblock 10.55.0.64-26
  check "its used block stays" kubectl get ipblock 10.55.0.0-26
  sleep 2
  check "and so does the pool" kubectl get ippool good
  check "and its range" equals equal,good,six accepted
  set_entry 10.55.0.0-26 3 null
  check "when the last address is given back, the block goes" soon gone ipblock 10.55.0.0-26
  check "and the pool" soon gone ippool good
  check "and its range" soon equals equal,six accepted

  block equal 10.55.1.0/26 "{\"3\": $held, \"4\": \"what is this\"}"
  kubectl delete ipblock 10.55.1.0-26 --wait=false
  sleep 2
  check "a block deleted by hand stays while it is used" kubectl get ipblock 10.55.1.0-26
  set_entry 10.55.1.0-26 3 null
  sleep 2
  check "also by an entry that nobody understands" kubectl get ipblock 10.55.1.0-26
  set_entry 10.55.1.0-26 4 "\"~ t=$((($(date +%s) + 600) * 1000))\""
  sleep 2
  check "and while an address cools" kubectl get ipblock 10.55.1.0-26
  set_entry 10.55.1.0-26 4 "\"~ t=$((($(date +%s) - 1) * 1000))\""
  check "then it goes" soon gone ipblock 10.55.1.0-26
  block equal 10.55.2.0/26 "{}"
  sleep 1
  check "an empty block of a pool that lives is left alone" kubectl get ipblock 10.55.2.0-26

  kubectl delete ippool equal --wait=false
  check "a pool that waited takes the range" soon equals True/Accepted ready other
  kubectl delete ippool blue --wait=false
  check "a space that nothing names is removed" soon gone ipspace blue
  kubectl delete ipspace default --wait=false
  sleep 1
  check "one in use cannot be" equals other,six accepted
}

# CRDs of a later release: unknown fields do not disturb the controller, and its writes do not remove them.
newer_crds() {
  local field='{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/%s/properties/later",
    "value": {"type": "string"}}'
  # shellcheck disable=SC2059 # the format is the line above
  check "a CRD gains fields" kubectl patch crd ippools.ipam.berth.dev --type=json \
    -p "[$(printf "$field" spec), $(printf "$field" status)]"
  check "a pool uses one" soon pool newer '{"subnet": "10.57.0.0/24", "later": "spec"}'
  check "it is Ready" soon equals True/Accepted ready newer
  check "somebody writes another into its status" \
    kubectl patch ippool newer --subresource=status --type=merge -p '{"status": {"later": "status"}}'
  block newer 10.57.0.0/26 "{\"1\": $held}"
  check "its counts are written" soon equals "1 1" status newer '.status | "\(.blocks) \(.used)"'
  check "and what the controller does not know stays" equals "spec status" status newer '"\(.spec.later) \(.status.later)"'
  set_entry 10.57.0.0-26 1 null
  kubectl delete ippool newer --wait=false
  check "the pool drains" soon gone ippool newer
}

# Prints the resourceVersions of all objects that the controller writes.
versions() { kubectl get ippools,ipspaces,ipblocks -o json | jq -c '[.items[].metadata | "\(.name)=\(.resourceVersion)"]'; }
writes_nothing_for() {
  local before
  before=$(versions)
  sleep "$1"
  equals "$before" versions
}

two_of_them() {
  local first=$pid second holder
  start second
  second=$pid
  check "the second waits" soon grep -q "waiting for the lease" "$work/second.log"
  holder=$(lease_holder)
  sleep 3
  check "and does not lead" refused grep -q " leading" "$work/second.log"
  kill -9 "$first"
  pool later '{"subnet": "10.88.0.0/24"}'
  check "when the leader is killed, it leads" soon grep -q " leading" "$work/second.log"
  check "and accepts what waited" soon equals True/Accepted ready later
  check "the lease is its own" refused equals "$holder" lease_holder

  kill -STOP "$second"
  start third
  check "when the leader hangs, another leads" soon grep -q " leading" "$work/third.log"
  pool later2 '{"subnet": "10.89.0.0/24"}'
  check "and works" soon equals True/Accepted ready later2
  kill -CONT "$second"
  check "the one that hung ends by itself" soon refused kill -0 "$second"
  wait "$second"
  check "with a code that says so" equals 1 echo $?
}

# A leader must renew its Lease within 10 s, and tries last 8 s after a renewal, which may be 2 s old when the API server
# goes. On a slow machine a restart of the API server may take longer.
api_restart() {
  local began=$SECONDS is_shorter=true
  "$cluster" stop-apiserver --kill --dir "$dir"
  "$cluster" start-apiserver --dir "$dir"
  ((SECONDS - began < 6)) || is_shorter=false
  # After a longer restart, the controller ends, as it should: start it again.
  $is_shorter || { kill "$pid"; wait "$pid"; start first; }
  pool after '{"subnet": "10.90.0.0/24"}'
  check "it goes on after a restart of the API server" soon equals True/Accepted ready after
  if $is_shorter; then
    check "without having lost the lease" kill -0 "$pid"
  else
    echo "the restart of the API server took too long to check that the lease was kept"
  fi
}

# A controller without a Lease survives an outage of any length.
api_outage() {
  local lone began
  start lone --no-leader-election
  lone=$pid
  soon grep -q "kind=IPBlock" "$work/lone.log"
  began=$SECONDS
  "$cluster" stop-apiserver --kill --dir "$dir"
  sleep 15
  check "without election it outlives an outage of 15 seconds" kill -0 "$lone"
  check "in which it asks seldom" eval "((\$(grep -c 'failed' '$work/lone.log') < 4 * (SECONDS - began)))"
  "$cluster" start-apiserver --dir "$dir"
  pool after2 '{"subnet": "10.91.0.0/24"}'
  check "and goes on when it is over" soon equals True/Accepted ready after2
  kill "$lone"
  wait "$lone"
  check "and ends in order" equals 0 echo $?
}

orderly_end() {
  kill "$pid"
  wait "$pid"
  check "SIGTERM ends it with 0" equals 0 echo $?
  check "and gives the lease back" equals "" lease_holder
  start last
  check "so that the next leads" soon grep -q " leading" "$work/last.log"
  kill "$pid"
  wait "$pid"
}

resident_kb() { sed -nE 's/^VmHWM:[[:space:]]*([0-9]+) kB/\1/p' "/proc/$pid/status"; }

# One hundred full blocks of pods that do not exist, so that the controller looks for these pods again and again.
many_addresses() {
  pool many '{"subnet": "10.92.0.0/16"}'
  start large
  check "a pool for 6,400 addresses" soon equals True/Accepted ready many
  jq -n --arg uid "$(status many .metadata.uid)" '{apiVersion: "v1", kind: "List", items: [range(100)
    | "10.92.\(. / 4 | floor).\(. % 4 * 64)" as $base | . as $block
    | {apiVersion: "ipam.berth.dev/v1alpha1", kind: "IPBlock",
       metadata: {name: "\($base)-26", finalizers: ["ipam.berth.dev/in-use"]},
       spec: {space: "default", pool: "many", poolUID: $uid, cidr: "\($base)/26", node: "n\(.)"}, used: 64, free: 0,
       allocations: ([range(64) | {key: tostring, value: ("team-a/web-7c456f7657-\($block * 64 + . + 10000) - "
         + "0123456789ab-00000000000\($block * 64 + . + 10000) i=eth0 t=1799999999000")}] | from_entries)}]}' >"$work/blocks"
  check "100 blocks are full" kubectl create -f "$work/blocks"
  check "it counts them" within 60 equals 6400 status many .status.used
  check "and was never larger than 40 MB" eval "resident_kb; ((\$(resident_kb) < 40000))"
  echo "      $(resident_kb) kB"
}

"$cluster" up --dir "$dir" --nodes 0 --audit || fail_early "no cluster, see above"
eval "$("$cluster" env --dir "$dir")"
{ kubectl apply -k "$root/crds" && kubectl apply -k "$root/install"; } >/dev/null || fail_early "cannot install berth"
kubectl wait --for condition=Established crd --all --timeout 30s >/dev/null
token_kubeconfig berth-controller controllers >"$work/kubeconfig" || fail_early "no kubeconfig for the controller"
start first
check "it leads" soon grep -q " leading" "$work/first.log"
acceptance
refusals
reservations
drains
newer_crds
check "in the end nothing is written in 15 idle seconds" soon writes_nothing_for 15
two_of_them
# This check comes before the restarts: an API server that has just started refuses every caller until it has loaded its roles.
check "RBAC refused it nothing" refused grep -i forbidden "$work"/*.log
api_restart
orderly_end
api_outage
many_addresses
"$root/e2e/rights.sh" note "$dir" "$build_dir/rights/controller"
print_counts
