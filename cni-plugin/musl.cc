// SPDX-License-Identifier: Apache-2.0
// Two symbols that GCC's C++ library needs from glibc, and that musl lacks. Linked into `berth` only (docs/adr/0009).
#include <cstddef>
#include <dlfcn.h>
#include <link.h>
#include <sys/single_threaded.h>

// The names are reserved for the C library, which this file supplements. dl_phdr_info contains addresses as numbers.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming,performance-no-int-to-ptr)

// Nonzero: the process has one thread, so std::shared_ptr counts without atomic operations.
char __libc_single_threaded = 1;

// The unwinder calls this to find the unwind information of an address. A static program is one object.
int _dl_find_object(void* /*address*/, dl_find_object* found) noexcept {
  const auto find = [](dl_phdr_info* object, std::size_t /*bytes*/, void* result) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const auto& segment = object->dlpi_phdr[i];
      if (segment.p_type != PT_GNU_EH_FRAME) continue;
      static_cast<dl_find_object*>(result)->dlfo_eh_frame =
          reinterpret_cast<void*>(object->dlpi_addr + segment.p_vaddr);
      return 1;
    }
    return 0;
  };
  return dl_iterate_phdr(find, found) == 1 ? 0 : -1;
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming,performance-no-int-to-ptr)
