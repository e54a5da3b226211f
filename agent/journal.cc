// SPDX-License-Identifier: Apache-2.0
// The journal's file has lines "+<attachment>" and "-<attachment>". It is replaced when it has grown long.
#include "agent/journal.h"

#include <cerrno>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <unistd.h>

#include "base/mutex.h"

namespace berth::agent {

namespace {

constexpr std::size_t kAttachmentLength = 29;
constexpr std::size_t kLinesMax = 4096;
// Limit of the file. While a block is quarantined, the DELs of its pods stay in the journal.
constexpr std::size_t kBytesMax = std::size_t{256} << 20;
constexpr const char* kFile = "journal";

}  // namespace

Expected<std::unique_ptr<Journal>> Journal::Open(const node::Folder& folder) {
  const auto text = folder.Read(kFile, kBytesMax);
  if (!text && errno != ENOENT) return node::FailIo("read", folder.PathOf(kFile));
  std::set<ipam::Attachment> pending;
  std::istringstream before(text.value_or(""));
  for (std::string line; std::getline(before, line);) {
    if (line.size() != kAttachmentLength + 1) continue;
    if (line[0] == '+') pending.insert(line.substr(1));
    if (line[0] == '-') pending.erase(line.substr(1));
  }
  std::unique_ptr<Journal> journal(new Journal(folder, std::move(pending)));
  // Write a new file: the old file would grow for ever, and its last line, if cut off, would join the next line. If the
  // disk is full, the journal takes no lines until Compact succeeds: the agent serves the node nevertheless.
  const Lock lock(journal->mutex_);
  static_cast<void>(journal->WriteAnew());
  return journal;
}

Expected<void> Journal::WriteAnew() {
  std::string text;
  for (const ipam::Attachment& attachment : pending_) text += "+" + attachment + "\n";
  // From here on no line may go to the old file, even if the write fails.
  file_ = node::HeldFile();
  if (auto written = folder_.Write(kFile, text, node::FileSync::kYes); !written) return written;
  auto file = folder_.OpenFile(kFile, O_WRONLY | O_APPEND);
  if (!file) return std::unexpected(file.error());
  file_ = *std::move(file);
  lines_ = pending_.size();
  return {};
}

Expected<void> Journal::Append(char mark, const ipam::Attachment& attachment) {
  const std::string line = mark + attachment + "\n";
  if (write(file_.descriptor(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    auto failure = node::FailIo("write", folder_.PathOf(kFile));
    // Remove the part of the line that was written: it would join the next line.
    static_cast<void>(!ftruncate(file_.descriptor(), static_cast<off_t>(lines_ * line.size())));
    return failure;
  }
  ++lines_;
  return {};
}

Expected<void> Journal::SyncFile() const {
  if (fdatasync(file_.descriptor()) != 0) return node::FailIo("sync", folder_.PathOf(kFile));
  return {};
}

Expected<void> Journal::Add(const ipam::Attachment& attachment, node::FileSync sync) {
  const Lock lock(mutex_);
  if (!pending_.contains(attachment)) {
    if (auto added = Append('+', attachment); !added) return added;
    pending_.insert(attachment);
  }
  return sync == node::FileSync::kYes ? SyncFile() : Expected<void>();
}

Expected<void> Journal::Remove(const ipam::Attachment& attachment) {
  const Lock lock(mutex_);
  if (!pending_.contains(attachment)) return {};
  if (auto removed = Append('-', attachment); !removed) return removed;
  pending_.erase(attachment);
  return {};
}

Expected<void> Journal::Sync() {
  const Lock lock(mutex_);
  return SyncFile();
}

std::size_t Journal::Size() const {
  const Lock lock(mutex_);
  return pending_.size();
}

bool Journal::IsLong() const {
  const Lock lock(mutex_);
  return !file_.is_open() || lines_ > kLinesMax + 2 * pending_.size();
}

Expected<void> Journal::Compact() {
  const Lock lock(mutex_);
  return WriteAnew();
}

bool Journal::Contains(const ipam::Attachment& attachment) const {
  const Lock lock(mutex_);
  return pending_.contains(attachment);
}

std::vector<ipam::Attachment> Journal::Pending() const {
  const Lock lock(mutex_);
  return {pending_.begin(), pending_.end()};
}

}  // namespace berth::agent
