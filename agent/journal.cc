// SPDX-License-Identifier: Apache-2.0
// The journal's file: lines "+<attachment>" and "-<attachment>", written anew when it has grown long.
#include "agent/journal.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "sync/mutex.h"

namespace berth::agent {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

namespace {

constexpr std::size_t kAttachmentLength = 29;
constexpr std::size_t kLinesMax = 4096;

std::unexpected<ipam::Error> FailIo(const std::string& what, const std::string& path) {
  return Fail(ErrorCode::kIo,
              what + " " + path + ": " + std::strerror(errno),
              "is the agent's --state folder on a writable disk with room?");
}

}  // namespace

Expected<std::unique_ptr<Journal>> Journal::Open(const std::string& path) {
  std::set<ipam::Attachment> pending;
  std::ifstream before(path);
  for (std::string line; std::getline(before, line);) {
    if (line.size() != kAttachmentLength + 1) continue;
    if (line[0] == '+') pending.insert(line.substr(1));
    if (line[0] == '-') pending.erase(line.substr(1));
  }
  before.close();
  std::unique_ptr<Journal> journal(new Journal(path, std::move(pending)));
  // So that it does not grow for ever and a cut-off line does not join the next one.
  const sync::Lock lock(journal->mutex_);
  if (auto written = journal->WriteAnew(); !written) return std::unexpected(written.error());
  return journal;
}

Expected<void> Journal::WriteAnew() {
  const std::string next = path_ + ".next";
  node::HeldFile file(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!file.is_open()) return FailIo("create", next);
  std::string text;
  for (const ipam::Attachment& attachment : pending_) text += "+" + attachment + "\n";
  if (write(file.descriptor(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return FailIo("write", next);
  }
  if (fdatasync(file.descriptor()) != 0) return FailIo("sync", next);
  if (rename(next.c_str(), path_.c_str()) != 0) return FailIo("replace", path_);
  // From here on the old file is nobody's.
  file_ = std::move(file);
  lines_ = pending_.size();
  const std::string folder = std::filesystem::path(path_).parent_path();
  const node::HeldFile directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open() || fsync(directory.descriptor()) != 0) return FailIo("sync", folder);
  return {};
}

Expected<void> Journal::Append(char mark, const ipam::Attachment& attachment, JournalSync sync) {
  const std::string line = mark + attachment + "\n";
  if (write(file_.descriptor(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    auto failure = FailIo("write", path_);
    // A part of a line would spoil the next one.
    static_cast<void>(!ftruncate(file_.descriptor(), static_cast<off_t>(lines_ * line.size())));
    return failure;
  }
  ++lines_;
  if (sync == JournalSync::kYes && fdatasync(file_.descriptor()) != 0) return FailIo("sync", path_);
  return {};
}

Expected<void> Journal::Add(const ipam::Attachment& attachment, JournalSync sync) {
  const sync::Lock lock(mutex_);
  if (auto added = Append('+', attachment, sync); !added) return added;
  pending_.insert(attachment);
  return {};
}

void Journal::Remove(const ipam::Attachment& attachment) {
  const sync::Lock lock(mutex_);
  if (pending_.erase(attachment) == 0) return;
  // A line that is missing only makes the DEL come twice.
  static_cast<void>(Append('-', attachment, JournalSync::kNo).has_value());
}

Expected<void> Journal::Sync() {
  const sync::Lock lock(mutex_);
  if (fdatasync(file_.descriptor()) != 0) return FailIo("sync", path_);
  return {};
}

std::size_t Journal::Size() const {
  const sync::Lock lock(mutex_);
  return pending_.size();
}

bool Journal::IsLong() const {
  const sync::Lock lock(mutex_);
  return lines_ > kLinesMax + 2 * pending_.size();
}

Expected<void> Journal::Compact() {
  const sync::Lock lock(mutex_);
  return WriteAnew();
}

bool Journal::Contains(const ipam::Attachment& attachment) const {
  const sync::Lock lock(mutex_);
  return pending_.contains(attachment);
}

std::vector<ipam::Attachment> Journal::Pending() const {
  const sync::Lock lock(mutex_);
  return {pending_.begin(), pending_.end()};
}

}  // namespace berth::agent
