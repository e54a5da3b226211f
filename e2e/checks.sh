# shellcheck shell=bash
# Sourced by suites: runs their checks and counts the results. Requires: $work, a folder of the suite's own, which the suite
# removes at its end unless a check has failed.
passed=0
failed=0
# shellcheck source=take_down.sh
source "$(dirname "${BASH_SOURCE[0]}")/take_down.sh"

# Runs kubectl without Go's garbage collector, which saves a fifth of its processor time. Suites call kubectl a thousand times.
kubectl() { GOGC=off GOMEMLIMIT=200MiB command kubectl "$@"; }

# check NAME COMMAND...: passes if the command succeeds. If it fails, prints its output and the output of the suite's
# show_state, if there is one. The command runs in the suite's own shell, so that it may set variables.
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

# within SECONDS COMMAND...: repeats the command until it succeeds, for SECONDS at most; prints its last output if it does not
# succeed. Pauses 0.3 s between tries, and 1.3 s after the first 5 s, because each kubectl costs 0.1 s of processor time.
within() {
  local begun=$SECONDS limit=$1 text
  shift
  while ! text=$("$@" 2>&1); do
    ((SECONDS < begun + limit)) || { echo "not in time: $* said: $text"; return 1; }
    sleep "$((SECONDS < begun + 5 ? 0 : 1)).3"
  done
}

# soon COMMAND...: like within, for a check whose time does not matter. The limit is enough for a busy machine.
soon() { within 60 "$@"; }

# promptly SECONDS COMMAND...: like within, for a time that berth promises to users. BERTH_ALONE=1 says that the machine does
# nothing else; without it, the limit is that of `soon`. Prints the time in both cases.
exec {checks_output}>&1
promptly() {
  local promised=$1 limit=$1 took begun=${EPOCHREALTIME/[.,]/}
  shift
  [[ -n ${BERTH_ALONE:-} ]] || limit=$((promised > 60 ? promised : 60))
  within "$limit" "$@" || return 1
  took=$(((${EPOCHREALTIME/[.,]/} - begun) / 1000))
  printf '            after %d ms, promised within %d s:\n' "$took" "$promised" >&"$checks_output"
  ((took <= limit * 1000)) || { echo "too late, after $took ms: $*"; return 1; }
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

# pids_of PROGRAM: prints the PIDs of the main processes of this cluster's containers that run PROGRAM, without probes, which
# run only for a moment. Requires: $dir, the cluster's folder.
pids_of() {
  local exe
  find /proc/[0-9]*/exe -prune -lname /berth-agent 2>/dev/null | while read -r exe; do
    if grep -qsF "$dir/n" "${exe%exe}mountinfo" && grep -qs '^NSpid:.*[[:space:]]1$' "${exe%exe}status" &&
      grep -qsaz "^/$1$" "${exe%exe}cmdline"; then
      cut -d/ -f3 <<<"$exe"
    fi
  done
}

controller_metrics() { # PID
  curl -sf --unix-socket "/proc/$1/root/run/probe/controller.sock" http://berth/metrics
}

# purge_as_told [OPTION...]: deletes crds/ with the commands of docs/install.md, and appends the options to the last command.
# Requires: $root.
purge_as_told() {
  local commands
  commands=$(sed -nE 's/^ +(kubectl (annotate .*purge=yes|patch .*berth-purge .*|delete -k crds\/ .*))/\1/p' "$root/docs/install.md")
  [[ $(wc -l <<<"$commands") == 3 ]] || { echo "docs/install.md has other commands: $commands"; return 1; }
  (cd "$root" && timeout 60 bash -e -c "$commands $*")
}

# print_counts: prints the suite's last line. Fails if a check has failed.
print_counts() {
  ((failed == 0)) || echo "logs are kept in $work"
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

# fail_early WHY: ends the suite as failed.
fail_early() {
  echo "$0: $*" >&2
  failed=$((failed + 1))
  print_counts
  exit 1
}
