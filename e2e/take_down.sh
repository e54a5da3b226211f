# shellcheck shell=bash
# Sourced by suites: takes the cluster of a suite down at its end.

# take_down DIR: for the EXIT trap of a suite. If the cluster in DIR stays, says why and ends the suite as failed, whatever it
# counted; DIR stays, too, because mounts of nodes may be left there. A further signal does not interrupt this.
take_down() {
  local text
  trap '' INT TERM HUP
  text=$("$(dirname "${BASH_SOURCE[0]}")/cluster" down --dir "$1" 2>&1) && return
  printf '%s: the cluster in %s could not be taken down:\n%s\n' "$0" "$1" "$text"
  exit 1
}
