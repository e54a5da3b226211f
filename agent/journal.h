// SPDX-License-Identifier: Apache-2.0
// Journal: DELs that are answered but not written yet, on disk until they are written.
//
// The agent answers a DEL before it writes the DEL with the block's next patch (docs/adr/0006), so the journal has to
// survive the agent. If a DEL has to wait for longer, because the API server is away or a block is quarantined, the
// journal also has to survive a crash of the machine: the agent then syncs the line to disk before it answers.
#pragma once

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

// Thread-safe.
class Journal {
 public:
  // Reads the file `journal`, or creates it. Drops a last line that was cut off, because its DEL was not answered. If
  // the file cannot be written, the journal is long (IsLong). Errors: kIo: the file cannot be read.
  [[nodiscard]] static Expected<std::unique_ptr<Journal>> Open(const node::Folder& folder);

  // Errors: kIo: the caller must not answer success, although the DEL may be pending.
  [[nodiscard]] Expected<void> Add(const ipam::Attachment& attachment, node::FileSync sync);
  // Syncs the file: all added DELs then survive a crash of the machine. Errors: kIo.
  [[nodiscard]] Expected<void> Sync();
  // Removes a DEL that is written. Does not sync, because a DEL that comes back after a crash of the machine is only
  // written again. Errors: kIo: the DEL stays pending and is written again, which harms only a new ADD of the same
  // attachment.
  [[nodiscard]] Expected<void> Remove(const ipam::Attachment& attachment);

  [[nodiscard]] bool Contains(const ipam::Attachment& attachment) const;
  [[nodiscard]] std::vector<ipam::Attachment> Pending() const;
  [[nodiscard]] std::size_t Size() const;

  // Whether the file has over 4,096 more lines than twice the pending DELs, or takes no more lines.
  [[nodiscard]] bool IsLong() const;
  // Replaces the file by a file with only the pending DELs. Requires: no later process has opened the file. Errors:
  // kIo: the file is unchanged, or takes no more lines.
  [[nodiscard]] Expected<void> Compact();

 private:
  Journal(node::Folder folder, std::set<ipam::Attachment> pending)
      : folder_(std::move(folder)), pending_(std::move(pending)) {}

  [[nodiscard]] Expected<void> Append(char mark, const ipam::Attachment& attachment) BERTH_REQUIRES(mutex_);
  [[nodiscard]] Expected<void> SyncFile() const BERTH_REQUIRES(mutex_);
  // Replaces the file by a file with only the pending DELs.
  [[nodiscard]] Expected<void> WriteAnew() BERTH_REQUIRES(mutex_);

  const node::Folder folder_;
  mutable Mutex mutex_;
  node::HeldFile file_ BERTH_GUARDED_BY(mutex_);
  std::size_t lines_ BERTH_GUARDED_BY(mutex_) = 0;  // number of lines in the file
  std::set<ipam::Attachment> pending_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::agent
