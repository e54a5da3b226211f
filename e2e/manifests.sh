# shellcheck shell=bash
# Sourced by crds.sh: checks the manifests of install/ as users render and combine them. Requires: $root, $work, and a control
# plane with crds/ and install/.

manifests=(crds install install/overlays/{example-bridge,direct,requests})
distributions=(gke k3s openshift)

# kustomized NAME TEXT: prints the result of a user's kustomization of install/ that also contains TEXT.
kustomized() {
  local folder=$work/kustomized/$1
  mkdir -p "$folder"
  # A link, because kustomize accepts no absolute path.
  ln -sfn "$root/install" "$work/kustomized/install"
  cat >"$folder/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../install/overlays/example-bridge]
$2
END
  kubectl kustomize "$folder"
}

on_distribution() { kustomized "$1" "components: [../install/distributions/$1]"; }

# readme_example HEADING: prints the block of YAML in README.md under the heading.
readme_example() {
  awk -v heading="## $1" '$0 == heading { here = 1 } here && /^```$/ { exit } inside { print } here && /^```yaml$/ { inside = 1 }' \
    "$root/install/README.md"
}

is_rendered() { diff <(kubectl kustomize "$root/install") "$root/install/berth.yaml"; }

server_takes() { # reads manifests
  kubectl apply --dry-run=server -f -
}
server_takes_all_of() { kubectl kustomize "$root/$1" | server_takes; }
server_takes_distribution() { on_distribution "$1" | server_takes; }

has_own_plugin_folder() { # DISTRIBUTION PATH
  on_distribution "$1" | grep -qxF "          path: $2"
}

# The components can be combined in any order: no component removes what another component has added.
combines() { # COMPONENT...
  local component text part list=""
  for component in "$@"; do list+="../install/$component, "; done
  text=$(kustomized combined "components: [$list]") && server_takes <<<"$text" || return 1
  for part in --extender-port=9747 'name: POD_IP' '--health-address=$(NODE_IP)' 'name: NODE_IP' 'name: berth-extender$'; do
    grep -q -e "$part" <<<"$text" || { echo "lacks $part"; return 1; }
  done
  refused grep -A10 nodeAffinity <<<"$text"
}

# Replaces the namespace with the command of docs/install.md, in a copy of install/.
moves_as_told() {
  local command text
  command=$(grep -m 1 '^grep -rlZ berth-system' "$root/docs/install.md") || { echo "docs/install.md has no command"; return 1; }
  mkdir "$work/moved" && cp -r "$root/install" "$work/moved" && (cd "$work/moved" && bash -c "${command/NAME/elsewhere}") &&
    kubectl create namespace elsewhere && text=$(kubectl kustomize "$work/moved/install") && server_takes <<<"$text" &&
    refused grep berth-system <<<"$text" && grep -q -e --lease-namespace=elsewhere <<<"$text" &&
    kubectl delete namespace elsewhere --wait=false
}

run_on_any_node() {
  local text
  text=$(kustomized managed "components: [../install/managed]") && grep -q podAntiAffinity <<<"$text" &&
    refused grep -A10 nodeAffinity <<<"$text"
}

# Without kube-proxy, the example gives both programs the address of the API server.
names_api_server_twice() {
  local example
  example=$(readme_example "Without kube-proxy")
  [[ -n $example ]] || { echo "README.md has no example"; return 1; }
  equals 2 grep -c KUBERNETES_SERVICE_HOST <(kustomized no-proxy "$example")
}

check_manifests() {
  local part distribution
  check "install/berth.yaml is install/, rendered" is_rendered
  for part in "${manifests[@]}"; do
    check "the API server takes every object of $part" server_takes_all_of "$part"
  done
  for distribution in "${distributions[@]}"; do
    check "and for $distribution" server_takes_distribution "$distribution"
  done
  check "k3s keeps plugins elsewhere" has_own_plugin_folder k3s /var/lib/rancher/k3s/data/cni
  check "on managed clusters controllers run on any node" run_on_any_node
  check "components are combined" combines extender metrics managed
  check "and in the other order" combines managed metrics extender
  check "docs/install.md says how to choose another namespace" moves_as_told
  check "kustomize moves nothing to another namespace" refused kustomized elsewhere "namespace: elsewhere"
  check "without kube-proxy both programs are told of the API server" names_api_server_twice
}
