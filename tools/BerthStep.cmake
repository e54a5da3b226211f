# berth_step: adds a step of `make test` to ctest. ctest itself reads this file; no project of CMake is configured for it.
#
# berth_step(<name> <command> LANE <lane> MINUTES <n> [NEEDS <step>...] [AFTER <step>...]
#            [GIVES_WAY <nice>] [LABELS quick|sweep])
#
# command: for bash -e -o pipefail, in the root of the tree.
# LANE: lanes run at the same time; lanes.json says how many steps of a lane run at once. A step of the lane `alone` measures
#   times: it runs while no other step runs. Write these steps last.
# MINUTES: time limit, several times the usual time. A step that exceeds it is ended and fails.
# NEEDS: steps above this step that must pass before. If one of them fails, this step counts as failed, too.
# AFTER: steps above this step that must end before, whether they pass or not.
# LABELS: `quick` is part of --quick; `sweep` is only part of --all.
#
# If several steps of a lane can begin, ctest takes the step with the longest chain of steps that wait for it, and among equals
# the upper step.
cmake_policy(VERSION 3.25)
set(steps "")
function(berth_step name command)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "LANE;MINUTES;GIVES_WAY;LABELS" "NEEDS;AFTER")
  if(NOT name MATCHES "^[a-z0-9-]+$")
    message(FATAL_ERROR "The step ${name} needs another name: lower-case letters, digits and hyphens.")
  elseif(name IN_LIST steps)
    message(FATAL_ERROR "There are two steps ${name}, of which ctest would run one. Rename one of them.")
  elseif(DEFINED ARG_UNPARSED_ARGUMENTS OR DEFINED ARG_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "The step ${name} has a word that berth_step does not know, or a keyword without a value: "
      "${ARG_UNPARSED_ARGUMENTS} ${ARG_KEYWORDS_MISSING_VALUES}")
  elseif(NOT ARG_LANE OR NOT ARG_MINUTES MATCHES "^[0-9.]+$" OR NOT "${ARG_GIVES_WAY}" MATCHES "^[0-9]*$"
      OR NOT "${ARG_LABELS}" MATCHES "^(quick|sweep|)$")
    message(FATAL_ERROR "The step ${name} needs a LANE, MINUTES as a number, GIVES_WAY as a number if given, and as LABELS "
      "quick, sweep or nothing.")
  endif()
  foreach(other IN LISTS ARG_NEEDS ARG_AFTER)
    if(NOT other IN_LIST steps)
      message(FATAL_ERROR "The step ${name} waits for ${other}. Write it below ${other}, or correct the name.")
    endif()
  endforeach()
  list(APPEND steps ${name})
  set(steps ${steps} PARENT_SCOPE)
  string(COMPARE EQUAL ${ARG_LANE} alone alone)

  add_test(${name} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/run-tests --step
    ${name} ${ARG_LANE} ${ARG_MINUTES} "${ARG_GIVES_WAY}" "${command}")
  # No TIMEOUT: ctest kills at once (TIMEOUT_SIGNAL_NAME needs CMake 3.27), and run-tests lets the step clean up first.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" RESOURCE_GROUPS ${ARG_LANE}:1 RUN_SERIAL ${alone}
    FIXTURES_SETUP ${name} FIXTURES_REQUIRED "${ARG_NEEDS}" DEPENDS "${ARG_AFTER}")
endfunction()
