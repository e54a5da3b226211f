#!/usr/bin/env bash
# Tests on a control plane of its own that blocks go to the nodes that need them: a pool of four blocks, the controller, and
# ten nodes, each with a real agent as a process. Nodes and their containers come and go. If an empty block has a free
# address, no ADD may fail for longer than 60 s. A node that is gone keeps no address, not even on standby. The nodes have
# no kubelet: the script renews their Leases and calls `berth` as a runtime does. Ends with "N passed, N failed". Takes
# about three minutes. Needs root.
#
#   e2e/blocks.sh [BUILD_DIR]     default: build. BERTH_SWEEP=all: 6 rounds instead of 2. ROUNDS=N: N rounds
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cluster=$root/e2e/cluster
# shellcheck source=/dev/null
source "$root/e2e/tokens.sh"
bin=$(cd "${1:-$root/build}" && pwd -P)/bin
rounds=${ROUNDS:-$([[ ${BERTH_SWEEP-} == all ]] && echo 6 || echo 2)}
nodes=10
work=$(mktemp -d /tmp/berth-blocks.XXXX)
dir=$work/cluster
# shellcheck source=checks.sh
source "$root/e2e/checks.sh"
pids=()
declare -A agent
declare -A containers # by node: its containers that have an address
declare -A rests      # by node that was switched off: until when its addresses may be cooling
off=
added=0
refused_max=0

for program in berth berth-agent berth-controller; do
  [[ -x $bin/$program ]] || fail_early "$bin/$program is missing: build it first (make)"
done
command -v jq >/dev/null || fail_early "jq is missing: apt-get install jq"

finish() {
  local one
  for one in "${pids[@]}" "${agent[@]}"; do kill "$one" 2>/dev/null; done
  take_down "$dir"
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Renews the Lease of every node in $work/alive.
renew() {
  local node
  while read -r node; do
    cat <<END
---
{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "$node", "namespace": "kube-node-lease"},
 "spec": {"holderIdentity": "$node", "leaseDurationSeconds": 40, "renewTime": "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)"}}
END
  done <"$work/alive" | kubectl apply -f - >/dev/null
}
# Waits with `read`: if this shell ended during a `sleep`, that process would stay behind.
keep_renewing() { while ! read -rt 5 <> <(:); do renew; done; }
set_ready() { # NODE STATUS
  kubectl patch node "$1" --subresource=status --type=merge -p \
    "{\"status\": {\"conditions\": [{\"type\": \"Ready\", \"status\": \"$2\", \"reason\": \"Test\"}]}}" >/dev/null
}

# call VERB NODE CONTAINER: calls the plugin as a runtime does.
call() {
  CNI_COMMAND=$1 CNI_CONTAINERID=$3 CNI_NETNS=/proc/self/ns/net CNI_NETNS_OVERRIDE=1 CNI_IFNAME=eth0 CNI_PATH=$bin \
    "$bin/berth" <<END
{"cniVersion": "1.1.0", "name": "net", "type": "berth", "ipam": {"type": "berth", "pools": ["web"],
 "agentSocket": "$work/$2.sock", "stateDir": "$work/$2"}}
END
}
blocks_of() { kubectl get ipblocks --field-selector "spec.node=$1" -o name | wc -l; }
standby_of() { [[ $(kubectl get ipblocks --field-selector "spec.node=$1" -o jsonpath='{.items[*].standby}') == *[0-9]* ]]; }
count_blocks() { kubectl get ipblocks -o name | wc -l; }
blocks() { kubectl get ipblocks -o name | sort | tr '\n' ' '; }
scarce() { kubectl get ippool web -o jsonpath='{.status.conditions[?(@.type=="Scarce")].status}'; }

# add NODE CONTAINER: tries an ADD each second, as a kubelet does. While it waits, a pod waits on the node. Succeeds if the
# container gets an address within 60 s.
add() {
  local node=$1 container=$2 since=$SECONDS end=$((SECONDS + 60))
  while ! call ADD "$node" "$container" >"$work/add" 2>&1; do
    ((SECONDS <= end)) || { cat "$work/add"; return 1; }
    if [[ ! -e $work/pod-$container ]]; then
      touch "$work/pod-$container"
      kubectl create -f - >/dev/null <<END || return 1
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$container"},
 "spec": {"nodeName": "$node", "containers": [{"name": "c", "image": "berth.test/none:1"}]}}
END
    fi
    call DEL "$node" "$container" || return 1 # a kubelet sends a DEL after an ADD that failed
    sleep 1
  done
  ((SECONDS - since <= refused_max)) || refused_max=$((SECONDS - since))
  [[ ! -e $work/pod-$container ]] || kubectl delete pod "$container" --force --grace-period=0 >/dev/null 2>&1
  containers[$node]+=" $container"
  added=$((added + 1))
}
del_all() { # NODE
  local container
  for container in ${containers[$1]-}; do call DEL "$1" "$container" || return 1; done
  containers[$1]=""
}

set_up() {
  local i node
  "$cluster" up --dir "$dir" --nodes 0 || fail_early "no cluster"
  eval "$("$cluster" env --dir "$dir")"
  kubectl apply -k "$root/crds" >/dev/null
  kubectl apply -f "$root/install/base/namespace.yaml" -f "$root/install/base/flow-control.yaml" \
    -f "$root/install/base/rbac-controller.yaml" -f "$root/install/base/policy-blocks.yaml" \
    -f "$root/install/base/policy-nodes.yaml" -f "$root/install/base/policy-pools.yaml" \
    -f "$root/install/agent/rbac-agent.yaml" >/dev/null
  kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s >/dev/null
  for ((i = 1; i <= nodes; i++)); do
    node=n$i
    token_kubeconfig berth-agent "$node" >"$work/$node.kubeconfig" || fail_early "no token for $node"
    echo "$node" >>"$work/alive"
    set_ready "$node" True
  done
  renew
  keep_renewing >>"$work/renew.log" 2>&1 &
  pids+=($!)
  token_kubeconfig berth-controller n1 >"$work/controller.kubeconfig"
  "$bin/berth-controller" --kubeconfig "$work/controller.kubeconfig" --log-level debug >"$work/controller.log" 2>&1 &
  pids+=($!)
  kubectl apply -f - >/dev/null <<'END'
{"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "web"}, "spec": {"subnet": "10.55.0.0/24"}}
END
  kubectl wait --for=condition=Ready ippool/web --timeout=60s >/dev/null || fail_early "no pool"
  for ((i = 1; i <= nodes; i++)); do
    node=n$i
    start_agent "$node"
  done
}

start_agent() { # NODE
  "$bin/berth-agent" --kubeconfig "$work/$1.kubeconfig" --node "$1" --socket "$work/$1.sock" \
    --state "$work/$1" >>"$work/$1.log" 2>&1 &
  agent[$1]=$!
  disown
}
# The machine loses its power, and an administrator taints the node as out of service.
switch_off() { # NODE
  kill -9 "${agent[$1]}"
  unset "agent[$1]"
  sed -i "/^$1$/d" "$work/alive"
  set_ready "$1" Unknown
  kubectl taint node "$1" node.kubernetes.io/out-of-service=test:NoExecute >/dev/null
}
# The node comes back without its containers and its files.
switch_on() { # NODE
  rm -rf "${work:?}/$1" "$work/$1.sock"
  containers[$1]=""
  kubectl taint node "$1" node.kubernetes.io/out-of-service- >/dev/null
  set_ready "$1" True
  echo "$1" >>"$work/alive"
  renew
  start_agent "$1"
}

# Adds containers on random nodes and deletes the containers of others; at most four nodes have containers at a time.
# Switches one node off, and switches on the node of the previous round.
round() {
  local node
  local -A held=()
  for node in "${!agent[@]}"; do
    held[$node]=${containers[$node]// /}
    ((RANDOM % 2)) && { del_all "$node" || return 1; }
  done
  [[ -z $off ]] || switch_on "$off"
  off=$(shuf -e "${!agent[@]}" -n 1)
  switch_off "$off"
  # The controller frees the node's held addresses at once, and they are cooling for 60 s. The same holds for addresses
  # whose DEL the agent has answered and not written.
  [[ -z ${held[$off]-} ]] || rests[$off]=$((SECONDS + 75))
  for node in $(shuf -e "${!agent[@]}" -n 4); do
    # The other nodes with addresses leave fewer blocks.
    (($(nodes_in_use "$node") < 4)) || continue
    add "$node" "c$SECONDS-$RANDOM-$node" || return 1
  done
}
# nodes_in_use NODE: how many nodes other than NODE have blocks that are not empty.
nodes_in_use() {
  local node count=0
  for node in "${!containers[@]}"; do
    [[ $node == "$1" || (-z ${containers[$node]// /} && ${rests[$node]-0} -lt $SECONDS) ]] || count=$((count + 1))
  done
  echo "$count"
}
clear_all() {
  local node
  for node in "${!agent[@]}"; do del_all "$node" || return 1; done
}

# seconds_of NAME: prints a constant of the controller.
seconds_of() { sed -nE "s/^inline constexpr std::chrono::seconds $1\{([0-9]+)\};.*/\1/p" "$root"/reconciler/*.h; }
# How long an unused block may stay. The controller frees the entries of a node that is off; a freed entry is cooling for
# kFreedRest. Then the block must be empty for kEmptyMin to kEmptyMin + kEmptyJitter before the controller deletes it.
# The controller's passes and requests take at most 15 s more.
block_stays_max=$(($(seconds_of kFreedRest) + $(seconds_of kEmptyMin) + $(seconds_of kEmptyJitter) + 15))

set_up
check "four blocks for ten nodes are scarce" soon equals True scarce
check "so nobody claims ahead" equals "" blocks
for node in n1 n2 n3 n4; do check "$node: a container gets an address" add "$node" "first-$node"; done
check "four nodes have all blocks" equals 4 count_blocks
check "the containers end" clear_all
check "n5: a container gets an address from a block that another node left" add n5 first-n5
check "within less than a minute" test "$refused_max" -le 40
for ((i = 1; i <= rounds; i++)); do check "round $i: every container gets an address" round; done
check "and they were some in each" test "$added" -ge $((5 + rounds))
echo "$added containers, the longest refusal: $refused_max s"
[[ -z $off ]] || check "the node that went last is back" switch_on "$off"
check "the containers end" clear_all
check "within $block_stays_max s no block is left with a node that uses none" within "$block_stays_max" equals "" blocks
check "n6: two containers" add n6 last-1
check "n6: and one more" add n6 last-2
check "n6: has addresses on standby" soon standby_of n6
switch_off n6
check "a node that is off keeps nothing" within "$block_stays_max" equals 0 blocks_of n6
check "nobody died" kill -0 "${pids[@]}" "${agent[@]}"
print_counts
