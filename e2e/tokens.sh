# shellcheck shell=bash
# Sourced by suites: makes credentials like those that Kubernetes gives to berth's pods.

# token_kubeconfig ACCOUNT NODE: prints a kubeconfig with a token of the service account ACCOUNT of install/. The token names
# the node, as the policies require. Creates the Node if there is none. Requires: KUBECONFIG is the administrator's.
token_kubeconfig() {
  local token
  # A Node that exists already is no error. If the Node is missing, the request for the token fails.
  kubectl create -f - >/dev/null 2>&1 <<<"{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"$2\"}}" || true
  token=$(kubectl -n berth-system create token "$1" --bound-object-kind Node --bound-object-name "$2") || return 1
  [[ -n ${token_cluster-} ]] || token_cluster=$(kubectl config view --minify --raw -o jsonpath="
    server: {.clusters[0].cluster.server}
    certificate-authority-data: {.clusters[0].cluster.certificate-authority-data}") || return 1
  cat <<END
apiVersion: v1
kind: Config
current-context: $1
clusters:
- name: $1
  cluster:$token_cluster
users: [{name: $1, user: {token: $token}}]
contexts: [{name: $1, context: {cluster: $1, user: $1}}]
END
}
