# shellcheck shell=bash
# Sourced by suites: what they count and how they ask. Requires: $work, a folder of the suite's own, which goes when the
# suite ends unless a check has failed.
passed=0
failed=0

# Without the garbage collector kubectl takes a fifth less time of a processor, and suites call it a thousand times.
kubectl() { GOGC=off GOMEMLIMIT=200MiB command kubectl "$@"; }

# check NAME COMMAND...: passes if the command succeeds; its output is shown only if not, and what the suite's show_state
# prints, if it has one. It runs in the suite's own shell, so that it may set variables.
check() {
  local name=$1
  shift
  if "$@" >"$work/said" 2>&1; then
    passed=$((passed + 1))
    printf '%4ds  ok    %s\n' "$SECONDS" "$name"
  else
    failed=$((failed + 1))
    printf '%4ds  FAIL  %s\n%s\n' "$SECONDS" "$name" "$(cat "$work/said")"
    ! declare -F show_state >/dev/null || show_state 2>&1
  fi
}

# within SECONDS COMMAND...: the command must succeed within that time; its last output is shown if it does not. What takes
# long is asked for seldom: each kubectl costs a tenth of a second of a processor.
within() {
  local begun=$SECONDS limit=$1 text
  shift
  while ! text=$("$@" 2>&1); do
    ((SECONDS < begun + limit)) || { echo "not in time: $* said: $text"; return 1; }
    sleep "$((SECONDS < begun + 5 ? 0 : 1)).3"
  done
}

# soon COMMAND...: as within, where what is tested is that it comes about. The limit is for a machine that has other things
# to do.
soon() { within 60 "$@"; }

# promptly SECONDS COMMAND...: as within, where the time is a promise to users. It holds on a machine that does nothing else,
# which BERTH_ALONE=1 says of this one; otherwise the limit is that of `soon`. The time is printed in both cases.
exec {checks_output}>&1
promptly() {
  local promised=$1 limit=$1 begun=${EPOCHREALTIME/[.,]/}
  shift
  [[ -n ${BERTH_ALONE:-} ]] || limit=$((promised > 60 ? promised : 60))
  within "$limit" "$@" || return 1
  printf '            after %d ms, promised within %d s:\n' $(((${EPOCHREALTIME/[.,]/} - begun) / 1000)) "$promised" \
    >&"$checks_output"
}

# equals WANT COMMAND...: the command must succeed and print exactly WANT.
equals() {
  local want=$1 got
  shift
  got=$("$@") || return 1
  [[ $got == "$want" ]] || { echo "wanted '$want', got '$got'"; return 1; }
}

# refused COMMAND...: the command must fail.
refused() {
  if "$@"; then echo "it succeeded"; return 1; fi
}

# purge_as_told [OPTION...]: deletes crds/ with the commands of docs/install.md; the options are for the last. Requires:
# $root.
purge_as_told() {
  local commands
  commands=$(sed -nE 's/^ +(kubectl (annotate .*purge=yes|patch .*berth-purge .*|delete -k crds\/ .*))/\1/p' "$root/docs/install.md")
  [[ $(wc -l <<<"$commands") == 3 ]] || { echo "docs/install.md has other commands: $commands"; return 1; }
  (cd "$root" && timeout 60 bash -e -c "$commands $*")
}

# print_counts: the suite's last line. Fails if a check did.
print_counts() {
  ((failed == 0)) || echo "logs are kept in $work"
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

# fail_early WHY: ends the suite, which has failed.
fail_early() {
  echo "$0: $*" >&2
  failed=$((failed + 1))
  print_counts
  exit 1
}
