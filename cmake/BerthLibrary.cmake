# berth_library, berth_part and berth_program: make targets from folders.
#
# A link <build>/inc/<folder>/<folder> publishes a folder's headers, and a target that links the folder gets only
# <build>/inc/<folder> on its include path. So for an include that docs/design.md does not allow, the compiler reports "No
# such file". The linker alone would not notice such an include for inline code.

set(BERTH_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
# Programs contain no path of the machine, so that the same tree gives the same bytes in every folder, also with ccache, which
# calls the compiler with relative paths. The last option that matches counts.
set(BERTH_PATHS -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=../ -ffile-prefix-map=${CMAKE_BINARY_DIR}/=)

# With these options a memory error ends the process before an attacker can use the error (docs/hardening.md). The sanitizers
# find more errors, so their builds do not use the options. FORTIFY needs optimization.
if(NOT BERTH_SANITIZE)
  add_compile_options(-fstack-protector-strong -D_GLIBCXX_ASSERTIONS
                      $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
# A program needs only the shared libraries that it calls, not all libraries of its parts.
add_link_options(-Wl,--as-needed)

# For the libraries of the static `berth`: no FORTIFY, because it calls functions that musl lacks. Each function gets its own
# section, so that the linker leaves out functions that nothing calls.
function(berth_for_musl target)
  target_compile_options(${target} PRIVATE -U_FORTIFY_SOURCE -ffunction-sections -fdata-sections)
endfunction()

function(berth_compile_options target)
  target_compile_options(${target} PRIVATE ${BERTH_WARNINGS} ${BERTH_PATHS})
  if(BERTH_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${BERTH_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    if(BERTH_SANITIZE MATCHES undefined)
      # These two checks run at every use of a pointer and cost a fifth of the time. AddressSanitizer also finds null pointers.
      target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${BERTH_SANITIZE})
  endif()
  set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
endfunction()

function(berth_library_options target)
  berth_compile_options(${target})
  if(BERTH_COVERAGE)
    # With this option GCC 12 reports uninitialized members of a std::variant that are never read.
    target_compile_options(${target} PRIVATE -fsanitize-coverage=trace-pc -Wno-maybe-uninitialized)
  endif()
endfunction()

# Compiles tests without optimization, which takes a third less time, and with only UndefinedBehaviorSanitizer's arithmetic
# checks, which saves another quarter: tests are most of a cold build. (The arithmetic checks stay, because the linker may take
# a header's function from the test.) ThreadSanitizer finds the same at any level. The code under test is compiled like the
# shipped code, or with all checks of the sanitizers.
function(berth_cheap_tests target)
  target_compile_options(${target} PRIVATE -O0 -U_FORTIFY_SOURCE)
  if(BERTH_SANITIZE MATCHES undefined)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined
                                             -fsanitize=shift,signed-integer-overflow,integer-divide-by-zero,bounds)
  endif()
endfunction()

# berth_together(<variable> <name> sources...): sets the variable to files of the build folder, <name>_<N>.cc, that include up
# to BERTH_TOGETHER of the sources each.
#
# One source takes as long as seven sources together, because most of the time goes into the headers and templates of JSON, logs
# and GoogleTest. The sources of a folder therefore share their unnamed namespace (tools/tidy_test.py finds names that clash), and
# a source may lack an include that another source has (`tools/check-tidy --alone` finds it). The paths are relative, so that
# ccache recognizes the files in every clone.
set(BERTH_TOGETHER 7)
function(berth_together variable name)
  set(files "")
  while(ARGN)
    list(SUBLIST ARGN 0 ${BERTH_TOGETHER} batch)
    list(REMOVE_ITEM ARGN ${batch})
    # This file includes sources with unnamed namespaces. GCC would warn about them as about headers with unnamed namespaces.
    set(text "#pragma GCC diagnostic ignored \"-Wsubobject-linkage\"\n")
    foreach(source IN LISTS batch)
      get_filename_component(source ${source} ABSOLUTE)
      file(RELATIVE_PATH source ${CMAKE_CURRENT_BINARY_DIR} ${source})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    list(LENGTH files number)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND files ${file})
  endwhile()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# berth_library(<folder> [SEQUENTIAL] [ALONE] [PROCESSES n] [APART a.cc ...] [PUBLIC libs...] [PRIVATE libs...]
#               [TEST_LIBS libs...] [EXCLUDE main.cc ...])
#
# Makes the target berth_<folder> ("-" becomes "_") from every *.cc of the folder, except *_test.cc and the files of EXCLUDE, and
# the test binary <folder>_test from every *_test.cc, so that no test can be forgotten. PUBLIC: libraries that the folder's
# headers include. The tests have the label "unit", and the target unit_tests builds them. SEQUENTIAL: neither this folder nor the
# folders that it uses start threads, so its tests are left out under ThreadSanitizer. ALONE: each source is compiled alone, for
# programs that link only some of the sources. APART: these sources are compiled alone. PROCESSES: this many processes share the
# tests, most of which wait.
add_custom_target(unit_tests)
function(berth_library folder)
  cmake_parse_arguments(ARG "SEQUENTIAL;ALONE" "PROCESSES" "PUBLIC;PRIVATE;TEST_LIBS;EXCLUDE;APART" ${ARGN})
  string(REPLACE "-" "_" name ${folder})
  set(target berth_${name})
  set(root ${CMAKE_BINARY_DIR}/inc/${folder})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${folder} SYMBOLIC)

  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  foreach(test IN LISTS tests)
    list(REMOVE_ITEM sources ${test})
  endforeach()
  foreach(excluded IN LISTS ARG_EXCLUDE ARG_APART)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()

  if(NOT ARG_ALONE)
    berth_together(sources sources ${sources})
  endif()
  add_library(${target} STATIC ${sources} ${ARG_APART})
  target_include_directories(${target} PUBLIC ${root})
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  berth_library_options(${target})

  if(tests)
    berth_together(tests tests ${tests})
    # The linker takes a template's function from the first object that has it. So the objects of the folder, and of the folders
    # that its headers include, come first: otherwise they would call functions of the tests' objects, which are compiled without
    # optimization.
    set(tested ${target} ${ARG_PUBLIC})
    list(FILTER tested INCLUDE REGEX "^berth_")
    list(TRANSFORM tested REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    add_executable(${name}_test ${tested} ${tests})
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    target_link_libraries(${name}_test PRIVATE ${target} ${ARG_PRIVATE} ${ARG_TEST_LIBS} GTest::gmock GTest::gtest_main)
    berth_compile_options(${name}_test)
    berth_cheap_tests(${name}_test)
    if(ARG_SEQUENTIAL AND BERTH_SANITIZE STREQUAL "thread")
      set_target_properties(${name}_test PROPERTIES EXCLUDE_FROM_ALL TRUE)
      return()
    endif()
    if(ARG_PROCESSES)
      foreach(process RANGE 1 ${ARG_PROCESSES})
        math(EXPR shard "${process} - 1")
        add_test(NAME ${folder}_${process} COMMAND ${name}_test)
        set_tests_properties(${folder}_${process} PROPERTIES
          LABELS unit TIMEOUT 1200 ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_PROCESSES};GTEST_SHARD_INDEX=${shard}")
      endforeach()
    else()
      add_test(NAME ${folder} COMMAND ${name}_test)
      set_tests_properties(${folder} PROPERTIES LABELS unit TIMEOUT 1200)
    endif()
    add_dependencies(unit_tests ${name}_test)
  endif()
endfunction()

# berth_part(<name> <source>... [PUBLIC libs...]): the target berth_<name> of some of a folder's sources, for folders that may use
# only these sources. It publishes only the headers with the same names, and headers among the sources. The folder's
# berth_library EXCLUDEs the sources, links the part, and tests it.
function(berth_part name)
  cmake_parse_arguments(ARG "" "" "PUBLIC" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(root ${CMAKE_BINARY_DIR}/inc/${name})
  file(MAKE_DIRECTORY ${root}/${folder})
  foreach(source IN LISTS ARG_UNPARSED_ARGUMENTS)
    string(REGEX REPLACE "cc$" "h" header ${source})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${header} ${root}/${folder}/${header} SYMBOLIC)
  endforeach()
  list(FILTER ARG_UNPARSED_ARGUMENTS EXCLUDE REGEX "\\.h$")
  berth_together(sources ${name} ${ARG_UNPARSED_ARGUMENTS})
  add_library(berth_${name} STATIC ${sources})
  target_include_directories(berth_${name} PUBLIC ${root})
  target_link_libraries(berth_${name} PUBLIC ${ARG_PUBLIC})
  berth_library_options(berth_${name})
endfunction()

# berth_program(<name> <sources> libs...): an executable in <build>/bin.
function(berth_program name sources)
  berth_together(sources ${name} ${sources})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${ARGN})
  berth_compile_options(${name})
endfunction()
