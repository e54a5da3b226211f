// SPDX-License-Identifier: Apache-2.0
// Journal: DELs that were answered while the API server was away, on disk until they are done.
//
// A DEL that fails keeps its pod Terminating, and some runtimes never repeat one; so it is answered, and what is left
// to do must survive a crash of the machine: each line is synced before the answer.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "ipam/entry.h"
#include "ipam/error.h"
#include "node/node_directory.h"

namespace berth::agent {

// Any thread.
class Journal {
 public:
  // Reads the file or makes it. A last line that was cut off is dropped: nobody was answered for it. Errors: kIo.
  [[nodiscard]] static ipam::Expected<std::unique_ptr<Journal>> Open(const std::string& path);

  // On disk when it returns. Errors: kIo: the caller must not answer success.
  [[nodiscard]] ipam::Expected<void> Add(const ipam::Attachment& attachment);
  // Done: not synced, since doing it twice is harmless.
  void Remove(const ipam::Attachment& attachment);

  [[nodiscard]] bool Contains(const ipam::Attachment& attachment) const;
  [[nodiscard]] std::vector<ipam::Attachment> Pending() const;

 private:
  Journal(std::string path, node::HeldFile file, std::set<ipam::Attachment> pending)
      : path_(std::move(path)), file_(std::move(file)), pending_(std::move(pending)) {}

  [[nodiscard]] ipam::Expected<void> Append(char mark, const ipam::Attachment& attachment, bool sync);

  const std::string path_;
  mutable std::mutex mutex_;
  node::HeldFile file_;
  std::set<ipam::Attachment> pending_;
};

}  // namespace berth::agent
