#!/usr/bin/env bash
# What each of berth's identities may, compared with what the suites saw it do: a right that no suite used is one too
# many, or a suite is missing.
#
#   e2e/rights.sh note CLUSTER_DIR FILE    at the end of a suite: what its audit log shows, one line for each right
#   e2e/rights.sh compare [FOLDER]         with all files of FOLDER, default: build/rights; on a control plane of its own
set -euo pipefail
unset KUBECONFIG KUBEBUILDER_ASSETS BERTH_USE_EXISTING_CLUSTER

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=take_down.sh
source "$root/e2e/take_down.sh"

# Writes a line "<user> <verb> <group>/<resource>[/<subresource>]" for each allowed request. All kubelets are one user.
note() {
  [[ -s $1/audit.log ]] || { echo "e2e/rights.sh: $1 has no audit log" >&2; exit 2; }
  mkdir -p "$(dirname "$2")"
  jq -r 'select(.annotations["authorization.k8s.io/decision"] == "allow" and .objectRef != null)
    | [(.user.username | sub("^system:node:.*"; "system:node")), .verb,
       ([.objectRef.apiGroup // "", .objectRef.resource, .objectRef.subresource // empty] | join("/"))]
    | join(" ")' "$1/audit.log" | sed -nE '/^system:(node|serviceaccount:berth-system:[^ ]+) /p' | sort -u >"$2"
}

# Rights for rare events that no suite produces reliably.
rare="system:serviceaccount:berth-system:berth-controller get ipam.berth.dev/ipblocks
system:serviceaccount:berth-system:berth-controller get /nodes
system:serviceaccount:berth-system:berth-controller patch discovery.k8s.io/endpointslices"

# The namespaces in which berth has rights of its own.
namespaces="berth-system default kube-node-lease"

# granted USER GROUP...: prints "<verb> <group>/<resource>" for each rule that the API server returns for the user. Leaves out
# rights that every user has (requests about the user itself), and "reconcile", which only policies check and no request has.
granted() {
  local user=$1 namespace
  shift
  # Without validation, because the user may not read the schema.
  for namespace in $namespaces; do
    kubectl create --validate=false -o json --as "$user" "${@/#/--as-group=}" -f - <<<'{"apiVersion":
      "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "'"$namespace"'"}}'
  done | jq -r '.status.resourceRules[] | .verbs[] as $verb | .apiGroups[] as $group | .resources[] as $resource
      | select($group | test("^(authorization|authentication|certificates)[.]k8s[.]io$") | not)
      | select($verb != "reconcile") | "\($verb) \($group)/\($resource)"' | sort -u
}

# unused NAME USER GROUP...: a check that fails if the user has rights that no suite used. NAME is the user's name in the notes.
unused() {
  local name=$1 text
  shift
  granted "$@" >"$work/granted"
  [[ -s $work/granted ]] || { echo "e2e/rights.sh: $name has no rights at all" >&2; exit 2; }
  text=$(comm -23 "$work/granted" <({ cat "$notes"/*; echo "$rare"; } | sed -n "s|^$name ||p" | sort -u))
  if [[ -z $text ]]; then
    echo "ok    $name: every right was used"
    passed=$((passed + 1))
  else
    printf 'FAIL  %s: no suite used\n%s\n' "$name" "$text"
    failed=$((failed + 1))
  fi
}

compare() {
  notes=$1
  [[ -n $(ls "$notes" 2>/dev/null) ]] || { echo "e2e/rights.sh: no notes in $notes: run the suites first" >&2; exit 2; }
  work=$(mktemp -d /tmp/berth-rights.XXXX)
  trap 'take_down "$work/cluster"; rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  "$root/e2e/cluster" up --dir "$work/cluster" --nodes 0
  eval "$("$root/e2e/cluster" env --dir "$work/cluster")"
  for part in crds install install/overlays/direct install/extender; do kubectl apply -k "$root/$part" >/dev/null; done
  passed=0
  failed=0
  local account
  for account in berth-agent berth-controller; do
    unused "system:serviceaccount:berth-system:$account" "system:serviceaccount:berth-system:$account" \
      system:serviceaccounts system:serviceaccounts:berth-system system:authenticated
  done
  unused system:node system:node:n1 system:nodes system:authenticated
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

case ${1-} in
  note) note "$2" "$3" ;;
  compare) compare "${2:-$root/build/rights}" ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
