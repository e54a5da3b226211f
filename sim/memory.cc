// SPDX-License-Identifier: Apache-2.0
// new and delete, which count the memory of each simulated process (Process::bytes). They keep a list of free pieces
// for each size: the C library's malloc and free would take a seventh of a history's time.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "sim/scheduler.h"

namespace berth::sim {
namespace {

// Stands before each piece. `bytes` includes the head.
struct alignas(std::max_align_t) Head {
  std::size_t bytes;
  std::size_t* owner;  // byte count of the process that allocated the piece
};

struct FreePiece {
  FreePiece* next;
};

constexpr std::size_t kStep = alignof(std::max_align_t);
constexpr std::size_t kStepsMax = 64;  // sizes of larger pieces are powers of two
constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;

constinit std::array<FreePiece*, kStepsMax + 64> free_pieces{};
constinit char* chunk = nullptr;
constinit std::size_t chunk_left = 0;
constinit std::size_t outside = 0;  // bytes that belong to no simulated process

struct Room {
  std::size_t bytes;  // including the head
  std::size_t list;
};

Room RoomFor(std::size_t bytes) {
  const std::size_t steps = (bytes + sizeof(Head) + kStep - 1) / kStep;
  if (steps < kStepsMax) return {.bytes = steps * kStep, .list = steps};
  const std::size_t whole = std::bit_ceil(steps * kStep);
  return {.bytes = whole, .list = kStepsMax + static_cast<std::size_t>(std::countr_zero(whole))};
}

char* Carve(std::size_t bytes) {
  if (chunk_left < bytes) {
    chunk_left = std::max(kChunkBytes, bytes);
    chunk = static_cast<char*>(std::malloc(chunk_left));
    if (chunk == nullptr) std::abort();
  }
  char* const piece = chunk;
  chunk += bytes;
  chunk_left -= bytes;
  return piece;
}

void* Allocate(std::size_t bytes) {
  const Room room = RoomFor(bytes);
  FreePiece*& list = free_pieces[room.list];
  char* piece = nullptr;
  if (list != nullptr) {
    piece = reinterpret_cast<char*>(list);
    list = list->next;
  } else {
    piece = Carve(room.bytes);
  }
  std::size_t* const owner = InFiber() && !IsOwnWork() ? &CurrentProcess()->bytes : &outside;
  *owner += room.bytes;
  new (piece) Head{.bytes = room.bytes, .owner = owner};
  return piece + sizeof(Head);
}

void Free(void* address) {
  if (address == nullptr) return;
  auto* const piece = static_cast<char*>(address) - sizeof(Head);
  const Head head = *reinterpret_cast<const Head*>(piece);
  *head.owner -= head.bytes;
  FreePiece*& list = free_pieces[RoomFor(head.bytes - sizeof(Head)).list];
  list = new (piece) FreePiece{.next = list};
}

}  // namespace
}  // namespace berth::sim

void* operator new(std::size_t bytes) { return berth::sim::Allocate(bytes); }
void* operator new[](std::size_t bytes) { return berth::sim::Allocate(bytes); }
void operator delete(void* address) noexcept { berth::sim::Free(address); }
void operator delete[](void* address) noexcept { berth::sim::Free(address); }
void operator delete(void* address, std::size_t /*bytes*/) noexcept { berth::sim::Free(address); }
void operator delete[](void* address, std::size_t /*bytes*/) noexcept { berth::sim::Free(address); }
