#!/usr/bin/env bash
# Tests e2e/cluster on this machine: clusters side by side, pods, tokens, restarts, interruptions, and that `down` leaves
# nothing. Needs root; without root, runs only the tests that need none. Ends with "N passed, N failed". Takes about two
# minutes once the binaries are built.
set -uo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cluster=$here/cluster
work=$(mktemp -d /tmp/berth-ct.XXXX)
passed=0
failed=0

finish() {
  local dir stays=0
  trap '' INT TERM HUP # a further signal does not interrupt this
  for dir in "$work"/*/; do
    if [[ -d $dir/logs || -e $dir/cluster.json ]]; then "$cluster" down --dir "$dir" || stays=1; fi
  done
  ((stays == 0)) || exit 1
  ((failed > 0)) || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# check NAME COMMAND...: passes if the command succeeds. If it fails, prints its output.
check() {
  local name=$1 text
  shift
  if text=$("$@" 2>&1); then
    passed=$((passed + 1))
    printf '%4ds  ok    %s\n' "$SECONDS" "$name"
  else
    failed=$((failed + 1))
    printf '%4ds  FAIL  %s\n%s\n' "$SECONDS" "$name" "$text"
  fi
}

# refuses TEXT COMMAND...: the command must fail and print TEXT.
refuses() {
  local want=$1 text
  shift
  if text=$("$@" 2>&1); then
    echo "succeeded: $text"
    return 1
  fi
  [[ $text == *"$want"* ]] || { echo "wanted '$want', got: $text"; return 1; }
}

# equals WANT COMMAND...: the command must succeed and print exactly WANT.
equals() {
  local want=$1 got
  shift
  got=$("$@") || return 1
  [[ $got == "$want" ]] || { echo "wanted '$want', got '$got'"; return 1; }
}

# in_cluster DIR COMMAND...: runs the command with the environment of the cluster in DIR.
in_cluster() (
  eval "$("$cluster" env --dir "$1")" || exit 1
  "${@:2}"
)

# nothing_left DIR: succeeds if no process, mount, link, namespace, table, cgroup or file of the cluster is left.
nothing_left() {
  local dir=$1 tag problem=0 proc
  tag=$(printf %s "$dir" | sha256sum | cut -c1-6)
  for proc in /proc/[0-9]*; do
    if { tr '\0' '\n' <"$proc/environ" | grep -qxF "BERTH_E2E_CLUSTER=$dir"; } 2>/dev/null ||
      grep -qF "dir=$dir/n" <(awk '$5 == "/"' "$proc/mountinfo" 2>/dev/null); then
      [[ -r $proc/cmdline ]] || continue
      echo "still runs: ${proc#/proc/} $(tr '\0' ' ' <"$proc/cmdline")"
      problem=1
    fi
  done
  if grep -F " $dir/" /proc/self/mountinfo; then problem=1; fi
  if ls -d /sys/class/net/b[tp]"$tag"* /run/netns/berth-"$tag"-* 2>/dev/null; then problem=1; fi
  if find "$dir" -mindepth 1 -maxdepth 1 ! -name logs ! -name audit.log ! -name .lock | grep .; then problem=1; fi
  return $problem
}

# Prints the folders that nodes create on the whole machine. Requires: no other cluster on the machine has nodes.
traces() {
  ls -d /sys/fs/cgroup/k8s.io /sys/fs/cgroup/*/k8s.io /etc/cni /opt/cni /run/berth* /run/containerd /var/lib/berth \
    /var/lib/cni /var/lib/kubelet /var/log/containers 2>/dev/null || true
}
others_have_nodes() { compgen -G '/sys/class/net/bt??????' >/dev/null; }

# Runs a pod on NODE whose volumes create the host's folder /run/berth/writer and need the host's folder /opt/cni/bin.
writes_to_host() { # NODE
  kubectl apply -f - <<POD
apiVersion: v1
kind: Pod
metadata: {name: writer-$1}
spec:
  nodeName: $1
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
    - {name: c, image: berth.test/pause:1, volumeMounts: [{name: run, mountPath: /r}, {name: bin, mountPath: /b}]}
  volumes:
    - {name: run, hostPath: {path: /run/berth/writer, type: DirectoryOrCreate}}
    - {name: bin, hostPath: {path: /opt/cni/bin, type: Directory}}
POD
  kubectl wait --for=condition=Ready --timeout=60s "pod/writer-$1"
}

# A folder that a pod creates on node n2 exists only there, and not on n1 or on the machine.
nodes_are_apart() {
  writes_to_host n2 || return 1
  [[ -d $BERTH_E2E_DIR/n2/run/berth/writer ]] || { echo "n2 has nothing"; return 1; }
  [[ ! -e $BERTH_E2E_DIR/n1/run/berth/writer && ! -e /run/berth/writer ]] || { echo "not n2 alone has it"; return 1; }
}

# interrupted SIGNAL LINE NODES: sends SIGNAL to `up` once it has printed LINE. Soon nothing may be left.
interrupted() {
  local dir=$work/interrupted pid end text
  rm -f "$work/progress" # it may have the line from the run before
  "$cluster" up --dir "$dir" --nodes "$3" 2>"$work/progress" &
  pid=$!
  until grep -qs "$2" "$work/progress"; do
    kill -0 "$pid" || { cat "$work/progress"; return 1; }
    sleep 0.02
  done
  kill -"$1" "$pid" || return 1
  if wait "$pid"; then
    echo "up succeeded"
    return 1
  fi
  # The supervisor, which takes the cluster down, ends last.
  end=$((SECONDS + 60))
  until text=$([[ ! -e $dir/cluster.json ]] && nothing_left "$dir"); do
    ((SECONDS < end)) || { echo "$text"; return 1; }
    sleep 0.1
  done
}

pod() { # NAME HOSTNETWORK NODE ARGUMENTS
  cat <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  hostNetwork: $2
  nodeName: $3
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: berth.test/pause:1, args: [$4]}]
POD
}

run_pod() {
  pod "$@" | kubectl apply -f - && kubectl wait --for=condition=Ready --timeout=60s "pod/$1"
}

# The pod prints, with its service account's token, an answer that only authenticated users get.
asks_api() {
  run_pod "$@" && for _ in {1..100}; do
    kubectl logs "$1" | grep -q APIGroupList && return
    sleep 0.1
  done
  kubectl logs "$1"
  return 1
}

dual_stack() {
  cat >"$BERTH_NODE1_CNI_CONF_DIR/10-network.conflist" <<CONF
{"cniVersion": "1.1.0", "name": "second", "plugins": [{"type": "bridge", "bridge": "${BERTH_NODE1_BRIDGE}x",
 "isGateway": true, "ipam": {"type": "host-local", "dataDir": "$BERTH_E2E_DIR/n1/host-local",
 "ranges": [[{"subnet": "10.55.0.0/24"}], [{"subnet": "2001:db8:55::/64"}]]}}]}
CONF
  local ips
  for _ in {1..20}; do # containerd notices the change of its configuration after a moment
    run_pod dual false n1 '' >/dev/null || return 1
    ips=$(kubectl get pod dual -o 'jsonpath={.status.podIPs[*].ip}')
    [[ $ips == "10.55.0."*" 2001:db8:55::"* ]] && return
    kubectl delete pod dual --now
  done
  echo "addresses: $ips"
  return 1
}

without_go() { # uses a PATH with everything that the script needs, except go
  mkdir -p "$work/path"
  ln -sf "$(command -v bash)" "$(command -v dirname)" "$work/path/"
  PATH=$work/path refuses "the program go is missing" bash "$cluster" up --dir "$work/none"
}

with_assets() { # KUBEBUILDER_ASSETS has the three programs of envtest; e2e/cluster builds the other programs
  mkdir -p "$work/assets"
  cp -P "$zero"/bin/{etcd,kube-apiserver,kubectl} "$work/assets/" || return 1
  KUBEBUILDER_ASSETS=$work/assets "$cluster" up --dir "$work/assets-cluster" || return 1
  [[ $(readlink "$work/assets-cluster/bin/etcd") == "$work/assets/etcd" ]] || return 1
  "$cluster" down --dir "$work/assets-cluster" || return 1
  rm "$work/assets/kubectl"
  KUBEBUILDER_ASSETS=$work/assets refuses "has no executable kubectl" "$cluster" up --dir "$work/assets-cluster"
}

existing() {
  BERTH_USE_EXISTING_CLUSTER=1 KUBECONFIG=$zero/admin.kubeconfig "$cluster" up --dir "$work/existing" || return 1
  in_cluster "$work/existing" kubectl get namespace default || return 1
  "$cluster" down --dir "$work/existing" && in_cluster "$zero" kubectl get namespace default
}

exported_kubeconfig_is_ignored() {
  KUBECONFIG=/nonexistent "$cluster" up --dir "$work/plain" && "$cluster" down --dir "$work/plain"
}

restart_apiserver() {
  local before
  before=$(in_cluster "$zero" printenv BERTH_APISERVER_PID)
  "$cluster" stop-apiserver --dir "$zero" "$@" || return 1
  equals "" in_cluster "$zero" printenv BERTH_APISERVER_PID || return 1
  refuses "refused" in_cluster "$zero" kubectl get namespaces || return 1
  "$cluster" start-apiserver --dir "$zero" && in_cluster "$zero" kubectl get namespace default || return 1
  [[ $(in_cluster "$zero" printenv BERTH_APISERVER_PID) != "$before" ]]
}

kill_supervisor() {
  kill -KILL "$(sed -n '/"supervisor"/,/}/s/.*"pid": \([0-9]*\).*/\1/p' "$1/cluster.json")"
}

crashed() { # DIR: kills the supervisor, and so its children; shims and pods live on until `down`
  kill_supervisor "$1" || return 1
  for _ in {1..100}; do
    refuses "ended without down" "$cluster" env --dir "$1" >/dev/null && break
    sleep 0.1
  done
  refuses "ended without down" "$cluster" up --dir "$1" || return 1
  "$cluster" down --dir "$1" && nothing_left "$1"
}

# as_nobody COMMAND...: runs the command as another user, who may read every file: the tree and the cache may be in root's
# home.
as_nobody() {
  mkdir -p "$work/nobody" && chown 65534 "$work/nobody" && chmod 755 "$work" &&
    setpriv --reuid=65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search -- "$@"
}

audit_has() {
  in_cluster "$1" kubectl get namespace kube-public &&
    grep -q '"requestURI":"/api/v1/namespaces/kube-public"' "$1/audit.log"
}

at_once() {
  "$cluster" up --dir "$one" --nodes 1 &
  local other=$! problem=0
  "$cluster" up --dir "$work/two" --nodes 2 || problem=1
  wait "$other" && ((problem == 0))
}

whoami_says() { # USER KUBECONFIG
  equals "$1" in_cluster "$zero" kubectl auth whoami --kubeconfig "$2" -o 'jsonpath={.status.userInfo.username}'
}

zero=$work/zero
one=$work/one
traces_before=unknown
others_have_nodes || traces_before=$(traces)
check "the program's own tests" bash -c "cd '$here/clusterctl' && go vet ./... && go test ./..."
check "help names the commands" grep -q kubeconfig <("$cluster" --help)
check "an unknown option is refused" refuses "unknown option" "$cluster" up --dir "$zero" --node 1
check "four nodes are refused" refuses "must be 0 to 3" "$cluster" up --dir "$zero" --nodes 4
check "env without a cluster says how to start one" refuses "no cluster in" "$cluster" env --dir "$zero"
check "down without a cluster is fine" "$cluster" down --dir "$zero"
check "a missing go is named" without_go
check "control plane starts" "$cluster" up --dir "$zero" --audit
check "a second up on the same folder is refused" refuses "runs in $zero already" "$cluster" up --dir "$zero"
check "controllers work: a namespace gets its account and goes" in_cluster "$zero" bash -c \
  'kubectl create namespace x && kubectl delete namespace x --timeout=60s'
check "tokens are issued" in_cluster "$zero" kubectl create token default
check "the audit log has a request at once" audit_has "$zero"
check "a signed user is who it says" whoami_says system:node:n7 \
  <("$cluster" kubeconfig --dir "$zero" --user system:node:n7 --group system:nodes)
check "an expired certificate is refused" refuses "logged in" in_cluster "$zero" kubectl auth whoami \
  --kubeconfig <("$cluster" kubeconfig --dir "$zero" --user late --expired)
check "the API server stops and starts" restart_apiserver
check "the API server is killed and starts" restart_apiserver --kill
check "etcdutl knows what restores take" in_cluster "$zero" bash -c \
  'etcdutl snapshot restore --help | grep -q -e --bump-revision'
check "KUBEBUILDER_ASSETS is used, and what it lacks is named" with_assets
check "an existing cluster is used and left alone" existing
check "an exported KUBECONFIG is ignored" exported_kubeconfig_is_ignored
for signal in INT TERM KILL; do
  check "up ended by SIG$signal leaves nothing" interrupted "$signal" "etcd answers" 0
done
if ((EUID == 0)); then
  check "nodes without root are refused" refuses "need root" as_nobody "$cluster" up --dir "$one" --nodes 1
  check "a control plane without root" as_nobody bash -c "$(printf "'%s' up --dir %s && '%s' down --dir %s" \
    "$cluster" "$work/nobody/zero" "$cluster" "$work/nobody/zero")"
  check "one node starts beside it" "$cluster" up --dir "$one" --nodes 1
  check "a pod asks the API with its token" in_cluster "$one" asks_api plain false n1 'get, /apis'
  check "a pod on the host's network does" in_cluster "$one" asks_api host true n1 'get, /apis'
  check "exec works" in_cluster "$one" bash -c 'kubectl exec plain -- /pause addresses | grep -q "^10\.241\."'
  check "ctr sees the node's containers" in_cluster "$one" bash -c 'ctr containers list | grep -q berth.test/pause:1'
  check "a changed network configuration counts: two families" in_cluster "$one" dual_stack
  check "a crash with running pods is cleaned up" crashed "$one"
  check "down of the crashed one again is fine" "$cluster" down --dir "$one"
  for signal in INT KILL; do
    check "up with two nodes ended by SIG$signal leaves nothing" interrupted "$signal" "controller manager" 2
  done
  check "one node and two nodes start at once" at_once
  check "a pod of the one asks the API" in_cluster "$one" asks_api plain false n1 'get, /apis'
  check "a pod of the second node asks the API" in_cluster "$work/two" asks_api plain false n2 'get, /apis'
  check "a pod on the second node's own network does" in_cluster "$work/two" asks_api host true n2 'get, /apis'
  check "what a host keeps is each node's own" in_cluster "$work/two" nodes_are_apart
  check "the one ends" "$cluster" down --dir "$one"
  check "nothing of the one is left" nothing_left "$one"
  check "another pod of the second node asks the API" in_cluster "$work/two" asks_api other false n2 'get, /apis'
  check "two nodes end" "$cluster" down --dir "$work/two"
  check "nothing of two nodes is left" nothing_left "$work/two"
  if [[ $traces_before != unknown ]] && ! others_have_nodes; then
    check "the machine is as it was before" equals "$traces_before" traces
  else
    echo "not checked, because another cluster on this machine has nodes: the machine is as it was before"
  fi
fi
check "the first cluster still works" in_cluster "$zero" kubectl get namespace default
check "down" "$cluster" down --dir "$zero"
check "nothing of it is left" nothing_left "$zero"
((failed == 0)) || echo "logs are kept in $work"
echo "$passed passed, $failed failed"
((failed == 0))
