// SPDX-License-Identifier: Apache-2.0
// Memory for the tests of this folder. Explore and CoreSeeds copy worlds millions of times, and take a third less time
// if freed memory goes to a list of pieces of its size. Memory that is freed without its size is not used again.
//
// A build with AddressSanitizer does not use these functions, because they would hide errors from AddressSanitizer.
#ifndef __SANITIZE_ADDRESS__
#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace berth::agent_core {
namespace {

constexpr std::size_t kPieceStep = 32;  // sizes of pieces are multiples of it
constexpr std::size_t kPieceSizes = 128;
constexpr std::size_t kPiecesAtOnce = std::size_t{1} << 20U;  // bytes

struct FreePiece {
  FreePiece* next;
};

struct FreePieces {
  std::array<FreePiece*, kPieceSizes> first{};  // by size
  std::byte* rest = nullptr;                    // memory that no piece has used yet
  std::size_t rest_size = 0;
};

FreePieces& Pieces() {
  static thread_local FreePieces pieces;
  return pieces;
}

void* AllocateFromSystem(std::size_t size) {
  void* const memory = std::malloc(size);  // NOLINT(cppcoreguidelines-no-malloc)
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace
}  // namespace berth::agent_core

// The linker takes these functions instead of the standard library's.
void* operator new(std::size_t size) {
  using namespace berth::agent_core;
  const std::size_t steps = size / kPieceStep + 1;
  if (steps >= kPieceSizes) return AllocateFromSystem(size);
  FreePieces& pieces = Pieces();
  if (FreePiece* const piece = pieces.first[steps]) {
    pieces.first[steps] = piece->next;
    return piece;
  }
  if (pieces.rest_size < steps * kPieceStep) {
    pieces.rest = static_cast<std::byte*>(AllocateFromSystem(kPiecesAtOnce));
    pieces.rest_size = kPiecesAtOnce;
  }
  pieces.rest_size -= steps * kPieceStep;
  return std::exchange(pieces.rest, pieces.rest + steps * kPieceStep);
}

void operator delete(void* memory, std::size_t size) noexcept {
  using namespace berth::agent_core;
  if (memory == nullptr) return;
  const std::size_t steps = size / kPieceStep + 1;
  if (steps >= kPieceSizes) return std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
  FreePiece*& first = Pieces().first[steps];
  first = new (memory) FreePiece{first};
}

void operator delete(void* /*memory*/) noexcept {}
#endif
