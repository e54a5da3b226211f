// SPDX-License-Identifier: Apache-2.0
// Reads and writes the files `queue` and `queue.lock`.
#include "node/del_queue.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace berth::node {

namespace {

constexpr const char* kQueueFile = "queue";
constexpr const char* kQueueLockFile = "queue.lock";

}  // namespace

Expected<DelQueue> DelQueue::Lock(const Folder& state, BootNanos deadline) {
  auto lock = state.OpenFile(kQueueLockFile, O_RDWR | O_CREAT);
  if (!lock) return std::unexpected(lock.error());
  const auto is_locked = LockExclusively(*lock, deadline);
  if (!is_locked) return std::unexpected(is_locked.error().Within(state.PathOf(kQueueLockFile)));
  if (*is_locked) return DelQueue(state, *std::move(lock));
  return Fail(ErrorCode::kUnavailable,
              "other calls held " + state.PathOf(kQueueLockFile) + " for too long",
              "the caller tries again; is the disk slow?");
}

Expected<void> DelQueue::Add(std::string_view call) const {
  if (call.size() > kQueuedCallBytesMax) {
    return Fail(
        ErrorCode::kUnavailable,
        "a DEL of " + std::to_string(call.size()) + " bytes is too large for the queue " + state_.PathOf(kQueueFile),
        "start this node's berth-agent, or shorten the network's name: the runtime tries the call again");
  }
  const auto file = state_.OpenFile(kQueueFile, O_WRONLY | O_CREAT | O_APPEND);
  if (!file) return std::unexpected(file.error());
  struct stat before = {};
  if (fstat(file->descriptor(), &before) != 0) return FailIo("look at", state_.PathOf(kQueueFile));
  // Sync the folder, so that the file's name survives a crash: if the file is empty, the process that created it may
  // have died before it synced the folder.
  if (auto synced = before.st_size == 0 ? state_.Sync() : Expected<void>(); !synced) return synced;
  // The leading newline ends an incomplete line of a process that died while it wrote.
  const std::string line = "\n" + std::string(call) + "\n";
  if (static_cast<std::size_t>(before.st_size) + line.size() > kQueueBytesMax) {
    return Fail(ErrorCode::kUnavailable,
                state_.PathOf(kQueueFile) + " is full: too many DELs wait for an agent",
                "start this node's berth-agent: the runtime tries the call again");
  }
  const bool is_written = write(file->descriptor(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                          fdatasync(file->descriptor()) == 0;
  if (!is_written) {
    auto failure = FailIo("write", state_.PathOf(kQueueFile));
    static_cast<void>(!ftruncate(file->descriptor(), before.st_size));
    return failure;
  }
  return {};
}

Expected<std::vector<std::string>> DelQueue::Calls() const {
  const auto text = state_.Read(kQueueFile);
  if (!text && errno != ENOENT) return FailIo("read", state_.PathOf(kQueueFile));
  std::vector<std::string> calls;
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    if (end > 0) calls.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return calls;
}

Expected<void> DelQueue::Clear() const { return state_.Remove(kQueueFile); }

}  // namespace berth::node
