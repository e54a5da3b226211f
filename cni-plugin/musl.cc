// SPDX-License-Identifier: Apache-2.0
// What GCC's C++ library asks of glibc and musl does not have. Linked into `berth` only (docs/adr/0009).
#include <cstddef>
#include <dlfcn.h>
#include <link.h>
#include <sys/single_threaded.h>

// Names that the C library reserves to itself, for which this stands in, and addresses that it has as numbers.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming,performance-no-int-to-ptr)

// There is one thread: std::shared_ptr counts without atomic operations.
char __libc_single_threaded = 1;

// Where the unwinder finds out how to leave a function: a static program is one object.
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
