# berth_library and berth_program: how a folder becomes a target.
#
# A folder's headers are published through a link <build>/inc/<folder>/<folder>, and only <build>/inc/<folder> is on the
# include path of those that link it. An include against the arrows (see docs/design.md) is then "no such file", which
# the linker alone would not notice for inline code.

set(BERTH_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
# No path of the machine in a program: the same tree gives the same bytes in every folder, and with ccache, which calls
# the compiler with relative paths, the same as without. The last one that matches counts.
set(BERTH_PATHS -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=../ -ffile-prefix-map=${CMAKE_BINARY_DIR}/=)

# What makes a bug in memory end the process rather than give it away (docs/hardening.md). Not under the sanitizers, which
# see more. FORTIFY needs optimization.
if(NOT BERTH_SANITIZE)
  add_compile_options(-fstack-protector-strong -D_GLIBCXX_ASSERTIONS
                      $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  add_link_options(-Wl,-z,relro,-z,now)
endif()

# For what the static `berth` is made of: FORTIFY calls what musl does not have.
function(berth_for_musl target)
  target_compile_options(${target} PRIVATE -U_FORTIFY_SOURCE)
endfunction()

function(berth_compile_options target)
  target_compile_options(${target} PRIVATE ${BERTH_WARNINGS} ${BERTH_PATHS})
  if(BERTH_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${BERTH_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${BERTH_SANITIZE})
  endif()
  set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
endfunction()

# Files of tests are most of what a cold build compiles, so they are compiled in cheaper ways than the code under
# test, which is compiled like what is shipped, or with all that the sanitizers check.
function(berth_cheap_tests target)
  if(BERTH_SANITIZE MATCHES undefined)
    # Both are checked at every use of a pointer, a third of the time; AddressSanitizer sees null pointers as well.
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment)
  else()
    # A third less time per file than the -O2 of release. ThreadSanitizer sees the same at any level.
    target_compile_options(${target} PRIVATE -O0 -U_FORTIFY_SOURCE)
  endif()
endfunction()

# berth_test_sources(<variable> <folder> tests...): sets the variable to what the folder's test binary is compiled from.
#
# Under sanitizers these are files that include BERTH_TESTS_TOGETHER tests each: the headers of GoogleTest and of JSON,
# and their templates, are most of a test's compile time. The release build compiles each test alone, so a changed one is
# compiled quickly, and an include that is missing is found. Tests of one folder thus share their unnamed namespace. The
# includes go through the folder's link, so that ccache knows them in every clone.
set(BERTH_TESTS_TOGETHER 7)
function(berth_test_sources variable folder)
  if(NOT BERTH_SANITIZE)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(sources "")
  while(ARGN)
    list(SUBLIST ARGN 0 ${BERTH_TESTS_TOGETHER} batch)
    list(REMOVE_ITEM ARGN ${batch})
    list(TRANSFORM batch REPLACE "^.*/(.*)$" "#include \"${folder}/\\1\"\n")
    list(LENGTH sources number)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/tests_${number}.cc)
    string(JOIN "" includes ${batch})
    file(CONFIGURE OUTPUT ${file} CONTENT "${includes}" @ONLY)
    list(APPEND sources ${file})
  endwhile()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# berth_library(<folder> [SEQUENTIAL] [PUBLIC libs...] [PRIVATE libs...] [TEST_LIBS libs...] [EXCLUDE main.cc ...])
#
# Makes the target berth_<folder> ("-" becomes "_") from every *.cc of the folder but *_test.cc and those of EXCLUDE, and
# the test binary <folder>_test from every *_test.cc: forgetting to register a test is impossible. PUBLIC is for what the
# folder's own headers include. Tests carry the label "unit", and the target unit_tests builds what they need. SEQUENTIAL:
# no thread is started in this folder or beneath it, so its tests are left out under ThreadSanitizer.
add_custom_target(unit_tests)
function(berth_library folder)
  cmake_parse_arguments(ARG "SEQUENTIAL" "" "PUBLIC;PRIVATE;TEST_LIBS;EXCLUDE" ${ARGN})
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
  foreach(excluded IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()

  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${root})
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  berth_compile_options(${target})
  if(BERTH_COVERAGE)
    # With it GCC 12 takes members of a std::variant for uninitialized that are not read.
    target_compile_options(${target} PRIVATE -fsanitize-coverage=trace-pc -Wno-maybe-uninitialized)
  endif()

  if(tests)
    berth_test_sources(test_sources ${folder} ${tests})
    add_executable(${name}_test ${test_sources})
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    target_link_libraries(${name}_test PRIVATE ${target} ${ARG_PRIVATE} ${ARG_TEST_LIBS} GTest::gmock GTest::gtest_main)
    berth_compile_options(${name}_test)
    berth_cheap_tests(${name}_test)
    if(ARG_SEQUENTIAL AND BERTH_SANITIZE STREQUAL "thread")
      set_target_properties(${name}_test PROPERTIES EXCLUDE_FROM_ALL TRUE)
      return()
    endif()
    add_test(NAME ${folder} COMMAND ${name}_test)
    set_tests_properties(${folder} PROPERTIES LABELS unit TIMEOUT 300)
    add_dependencies(unit_tests ${name}_test)
  endif()
endfunction()

# berth_program(<name> <main.cc> libs...): an executable in <build>/bin.
function(berth_program name main)
  add_executable(${name} ${main})
  target_link_libraries(${name} PRIVATE ${ARGN})
  berth_compile_options(${name})
endfunction()
