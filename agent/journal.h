// SPDX-License-Identifier: Apache-2.0
// Journal: DELs that were answered and are not written yet, on disk until they are.
//
// A DEL is answered before its write, which goes with the next one of its block (docs/adr/0006); what is left to do
// must survive the agent. While the API server is away it may take long, and must survive the machine: then each line
// is synced before the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "ipam/entry.h"
#include "node/folder.h"
#include "node/held_file.h"

namespace berth::agent {

enum class JournalSync : std::uint8_t {
  kNo,   // a crash of the process loses nothing
  kYes,  // nor does one of the machine
};

// Any thread.
class Journal {
 public:
  // Reads the file `journal` or makes it. A last line that was cut off is dropped: nobody was answered for it. Errors:
  // kIo.
  [[nodiscard]] static Expected<std::unique_ptr<Journal>> Open(const node::Folder& folder);

  // Errors: kIo: the caller must not answer success, though it may be pending.
  [[nodiscard]] Expected<void> Add(const ipam::Attachment& attachment, JournalSync sync);
  // What was added survives the machine when it returns. Errors: kIo.
  [[nodiscard]] Expected<void> Sync();
  // Done: not synced, since what a machine's end leaves of it is done twice. Errors: kIo: it is pending still, and done
  // again, which matters only to whoever takes the name anew.
  [[nodiscard]] Expected<void> Remove(const ipam::Attachment& attachment);

  [[nodiscard]] bool Contains(const ipam::Attachment& attachment) const;
  [[nodiscard]] std::vector<ipam::Attachment> Pending() const;
  [[nodiscard]] std::size_t Size() const;

  // Whether the file has many more lines than are pending, or takes none any more.
  [[nodiscard]] bool IsLong() const;
  // Writes the file anew, with what is pending. Requires: no later process has opened it. Errors: kIo: it is as it
  // was, or takes no more lines.
  [[nodiscard]] Expected<void> Compact();

 private:
  Journal(node::Folder folder, std::set<ipam::Attachment> pending)
      : folder_(std::move(folder)), pending_(std::move(pending)) {}

  [[nodiscard]] Expected<void> Append(char mark, const ipam::Attachment& attachment) BERTH_REQUIRES(mutex_);
  [[nodiscard]] Expected<void> SyncFile() const BERTH_REQUIRES(mutex_);
  // Puts a file with what is pending in the place of the one there is.
  [[nodiscard]] Expected<void> WriteAnew() BERTH_REQUIRES(mutex_);

  const node::Folder folder_;
  mutable Mutex mutex_;
  node::HeldFile file_ BERTH_GUARDED_BY(mutex_);
  std::size_t lines_ BERTH_GUARDED_BY(mutex_) = 0;  // in the file
  std::set<ipam::Attachment> pending_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::agent
