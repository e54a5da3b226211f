// SPDX-License-Identifier: Apache-2.0
// The journal's file: lines "+<attachment>" and "-<attachment>", emptied when nothing is pending.
#include "agent/journal.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace berth::agent {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

namespace {

constexpr std::size_t kAttachmentLength = 29;

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
  // Written anew, so that it does not grow for ever and a cut-off line does not join the next one.
  const std::string next = path + ".next";
  node::HeldFile file(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!file.is_open()) return FailIo("create", next);
  std::unique_ptr<Journal> journal(new Journal(path, std::move(file), {}));
  for (const ipam::Attachment& attachment : pending) {
    if (auto added = journal->Append('+', attachment, /*sync=*/false); !added) return std::unexpected(added.error());
  }
  if (fdatasync(journal->file_.descriptor()) != 0) return FailIo("sync", next);
  if (rename(next.c_str(), path.c_str()) != 0) return FailIo("replace", path);
  journal->pending_ = std::move(pending);
  return journal;
}

Expected<void> Journal::Append(char mark, const ipam::Attachment& attachment, bool sync) {
  const std::string line = mark + attachment + "\n";
  if (write(file_.descriptor(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return FailIo("write", path_);
  }
  if (sync && fdatasync(file_.descriptor()) != 0) return FailIo("sync", path_);
  return {};
}

Expected<void> Journal::Add(const ipam::Attachment& attachment) {
  const std::scoped_lock lock(mutex_);
  if (auto added = Append('+', attachment, /*sync=*/true); !added) return added;
  pending_.insert(attachment);
  return {};
}

void Journal::Remove(const ipam::Attachment& attachment) {
  const std::scoped_lock lock(mutex_);
  if (pending_.erase(attachment) == 0) return;
  if (pending_.empty() && ftruncate(file_.descriptor(), 0) == 0) return;
  // A line that is missing only makes the DEL come twice.
  static_cast<void>(Append('-', attachment, /*sync=*/false).has_value());
}

bool Journal::Contains(const ipam::Attachment& attachment) const {
  const std::scoped_lock lock(mutex_);
  return pending_.contains(attachment);
}

std::vector<ipam::Attachment> Journal::Pending() const {
  const std::scoped_lock lock(mutex_);
  return {pending_.begin(), pending_.end()};
}

}  // namespace berth::agent
