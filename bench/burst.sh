#!/usr/bin/env bash
# Measures how long 30 pods take until all are Running on a real kubelet, alternately with berth and with host-local:
#
#   bench/burst.sh [RUNS]        5 runs of each by default; the last line is the comparison
#
# The node has containerd, a kubelet and the bridge plugin. Only the network configuration changes between runs. berth is installed
# from the image of "make image". Needs root, because kubelet and containerd do.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
image=${BERTH_IMAGE_FILE:-$root/build/image/berth.tar}
runs=${1:-5}
pods=30
dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-burst.XXXXXX")
mkdir "$dir/logs"

clean_up() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  if "$root/e2e/cluster" down --dir "$dir"; then rm -rf "$dir"; else status=1; fi
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

[[ -r $image ]] || { echo "bench/burst.sh: there is no $image: run \"make image\" first" >&2; exit 1; }

# Writes the file in place, because containerd notices a file that is written.
use_ipam() {
  cat >"$BERTH_NODE1_CNI_CONF_DIR/10-network.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "burst-$1", "plugins": [{"type": "bridge", "bridge": "$BERTH_NODE1_BRIDGE",
 "isDefaultGateway": true, "forceAddress": true, "ipMasq": false, "ipam": $2}]}
EOF
}
# await_ipam PREFIX: starts pods until one gets an address with PREFIX, and so containerd has read the file.
await_ipam() {
  local address=
  while [[ $address != "$1"* ]]; do
    kubectl run probe --image="$BERTH_TEST_IMAGE" --restart=Never
    kubectl wait --for=condition=Ready pod/probe --timeout=60s
    address=$(kubectl get pod probe -o jsonpath='{.status.podIP}')
    kubectl delete pod probe --now --wait=true
  done >"$dir/logs/probe.log" 2>&1
}

milliseconds() { local now=${EPOCHREALTIME/[.,]/}; echo $((now / 1000)); }

# Prints the milliseconds from `kubectl scale` until the last pod is Running.
burst() {
  local begun
  begun=$(milliseconds)
  kubectl scale deployment/burst --replicas="$pods" >>"$dir/logs/burst.log"
  kubectl rollout status deployment/burst --timeout=180s >>"$dir/logs/burst.log"
  echo $(($(milliseconds) - begun))
  local others
  others=$(kubectl get pods -l app=burst -o jsonpath='{range .items[*]}{.status.podIP}{"\n"}{end}' | grep -vc "^$1" || true)
  ((others == 0)) || { echo "bench/burst.sh: $others pods have an address that is not of $1" >&2; return 1; }
  kubectl scale deployment/burst --replicas=0 >>"$dir/logs/burst.log"
  kubectl wait --for=delete pod -l app=burst --timeout=180s >>"$dir/logs/burst.log"
}

median() { sort -n | awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'; }

"$root/e2e/cluster" up --dir "$dir" --nodes 1 --image "$image"
eval "$("$root/e2e/cluster" env --dir "$dir")"
{
  kubectl apply -k "$root/crds/"
  kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=berth --timeout=60s
  kubectl apply -k "$root/install/"
  kubectl rollout status --namespace berth-system daemonset/berth-agent --timeout=120s
} >"$dir/logs/install.log"
kubectl apply -f - >>"$dir/logs/install.log" <<EOF
apiVersion: ipam.berth.dev/v1alpha1
kind: IPPool
metadata: {name: burst}
spec: {subnet: 10.55.0.0/20, gateway: 10.55.0.1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: burst}
spec:
  replicas: 0
  selector: {matchLabels: {app: burst}}
  template:
    metadata: {labels: {app: burst}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: pause, image: "$BERTH_TEST_IMAGE", imagePullPolicy: Never}]
EOF
kubectl wait --for=condition=Ready ippool/burst --timeout=60s >>"$dir/logs/install.log"

declare -A ipam=(
  [berth]="{\"type\": \"berth\", \"pools\": [\"burst\"]}"
  [host-local]="{\"type\": \"host-local\", \"dataDir\": \"$dir/host-local\", \"ranges\": [[{\"subnet\": \"10.56.0.0/20\"}]]}")
declare -A prefix=([berth]=10.55. [host-local]=10.56.)
for ((run = 0; run <= runs; run++)); do
  order=(berth host-local)
  ((run % 2)) && order=(host-local berth)
  for name in "${order[@]}"; do
    use_ipam "$name" "${ipam[$name]}"
    await_ipam "${prefix[$name]}"
    took=$(burst "${prefix[$name]}")
    # The first run of each warms caches and does not count.
    ((run == 0)) || echo "$took" >>"$dir/$name.times"
    echo "run $run of $runs: $name: $pods pods Running after $took ms"
  done
done
berth=$(median <"$dir/berth.times")
host_local=$(median <"$dir/host-local.times")
awk -v a="$berth" -v b="$host_local" -v n="$pods" -v runs="$runs" 'BEGIN {
  printf "%d pods Running, medians of %d runs: berth %d ms, host-local %d ms: %.2f x; at most 1.05 x + 300 ms = %d ms: %s\n",
    n, runs, a, b, a / b, 1.05 * b + 300, a <= 1.05 * b + 300 ? "reached" : "MISSED" }'
