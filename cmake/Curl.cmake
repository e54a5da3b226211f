# berth_curl: libcurl, as k8sclient/ links it.
#
# A small libcurl, linked statically: the dynamic linker's work for Debian's libcurl and its thirty libraries takes longer than a
# call of berth-direct. tools/build-curl builds libcurl once, from Debian's source package. With -DBERTH_SYSTEM_CURL=ON the
# programs use the system's libcurl.
if(BERTH_SYSTEM_CURL)
  find_package(CURL 7.88 REQUIRED)
  add_library(berth_curl INTERFACE)
  target_link_libraries(berth_curl INTERFACE CURL::libcurl)
else()
  # If the script changes, CMake runs it again.
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tools/build-curl)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/build-curl OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  add_library(berth_curl STATIC IMPORTED GLOBAL)
  set_target_properties(berth_curl PROPERTIES IMPORTED_LOCATION ${folder}/lib/libcurl.a
    INTERFACE_INCLUDE_DIRECTORIES ${folder}/include)
  target_link_libraries(berth_curl INTERFACE OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
endif()
