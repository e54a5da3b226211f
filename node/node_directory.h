// SPDX-License-Identifier: Apache-2.0
// NodeDirectory: what the processes of one node leave for one another, in files under /run.
//
// Kept there: a lock, whether an agent lives, the version of this node's last block write, writes whose outcome is
// open, addresses handed out before they were written, DELs seen lately, ADDs that run, and what only saves time
// (recent blocks and pools, a TLS session). A reboot ends all of that, and so do these files; nothing in them survives
// the machine, so nothing is synced to disk. Every file is written whole, by rename.
//
// Who may write this node's blocks (docs/adr/0007): agents, as long as one lives; else whoever has the lock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipam/block_store.h"
#include "ipam/error.h"
#include "node/handed_out.h"

namespace berth::node {

// A time on CLOCK_BOOTTIME, in nanoseconds: comparable between processes, and between now and a suspended past.
using BootNanos = std::int64_t;
[[nodiscard]] BootNanos BootTimeNow();

// An open file that is locked or held; closed with the object.
class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int descriptor) : descriptor_(descriptor) {}
  HeldFile(HeldFile&& other) noexcept;
  HeldFile& operator=(HeldFile&& other) noexcept;
  ~HeldFile() { Close(); }
  void Close();
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

class NodeDirectory {
 public:
  // `state_dir`/nodes/<node>, which is made if it is missing. Programs reach one API server by several addresses, so
  // `server` is no part of the path; it tells whose versions are whose. Errors: kIo.
  [[nodiscard]] static ipam::Expected<NodeDirectory> Open(const std::string& state_dir, const std::string& node,
                                                          std::string_view server);

  // Waits for the lock of this node until `deadline`; it goes with the HeldFile or its process. For processes of one
  // thread. Errors: kTimeout, kIo.
  [[nodiscard]] ipam::Expected<HeldFile> Lock(BootNanos deadline) const;
  // Does not wait. Not open: somebody has it. Errors: kIo.
  [[nodiscard]] ipam::Expected<HeldFile> TryLock() const;

  // Says that an agent lives, until the HeldFile closes; there may be several. Errors: kIo.
  [[nodiscard]] ipam::Expected<HeldFile> HoldAgent() const;
  [[nodiscard]] bool HasAgent() const;

  // resourceVersion of the last block write of this node; empty: unknown, or written through another `server`.
  [[nodiscard]] std::string ReadVersion() const;
  // Keeps the higher of the two, whoever else writes it at the same time. Empty: forgets it.
  void WriteVersion(const std::string& version) const;
  // Another one after each write that WriteVersion was told of, through whatever server; empty: unknown.
  [[nodiscard]] std::string LastWrite() const;

  // Intents (ipam::OpenIntent): a write is about to be sent of which the outcome may not be known.
  [[nodiscard]] ipam::Expected<std::string> OpenIntent(const ipam::Attachment& attachment,
                                                       const ipam::Block& block) const;
  // The attachment's intent for that block, if it is open. One that cannot be understood counts as a creation: that is
  // settled last.
  [[nodiscard]] std::optional<ipam::OpenIntent> ReadIntent(const ipam::Attachment& attachment,
                                                           const ipam::Block& block) const;
  [[nodiscard]] ipam::Expected<void> CloseIntent(const std::string& id) const;
  [[nodiscard]] ipam::Expected<void> CloseIntent(const ipam::Attachment& attachment, const ipam::Block& block) const;
  // All whose attachment begins with `prefix`. A file that cannot be understood is an error: it may stand for a leak.
  [[nodiscard]] ipam::Expected<std::vector<ipam::OpenIntent>> ReadIntents(std::string_view prefix) const;

  // Handed out by an agent that may die before the entry is written: whoever writes the node's blocks next writes it.
  // Errors: kIo: nobody must be told the address.
  [[nodiscard]] ipam::Expected<void> NoteHandedOut(const HandedOut& handed_out) const;
  void ForgetHandedOut(const ipam::Attachment& attachment, const std::string& block) const;
  void ForgetHandedOut(const ipam::Attachment& attachment) const;
  // A file that cannot be read or understood is an error: the address it stands for may be in use.
  [[nodiscard]] ipam::Expected<std::vector<HandedOut>> ReadHandedOut() const;

  // Remembers that a DEL of the attachment, started at `started`, has come; forgets those older than eleven minutes.
  [[nodiscard]] ipam::Expected<void> MarkDeleted(const ipam::Attachment& attachment, BootNanos started) const;
  [[nodiscard]] std::optional<BootNanos> DeletedAt(const ipam::Attachment& attachment) const;

  // Says that an ADD of the attachment runs, until the HeldFile closes. Errors: kIo.
  [[nodiscard]] ipam::Expected<HeldFile> HoldRunning(const ipam::Attachment& attachment) const;
  void ForgetRunning(const ipam::Attachment& attachment) const;
  // Whether one ran that was not forgotten since.
  [[nodiscard]] bool HasRun(const ipam::Attachment& attachment) const;
  // Notes the time at which that ADD was through. Its file stays until ForgetRunning.
  static void NoteEnd(const HeldFile& running);
  // Attachments whose ADD runs now or was through after `since_ms` (UNIX time in milliseconds).
  [[nodiscard]] ipam::Expected<std::set<ipam::Attachment>> ReadRunning(std::int64_t since_ms) const;

  // What a process leaves to those that come after it, whole or not at all; empty: takes it away. What can't be written
  // is not there.
  void WriteNote(const char* name, std::string_view text) const;
  [[nodiscard]] std::optional<std::string> ReadNote(const char* name) const;

  // From now on this instance of the agent creates blocks of the node, and no other: waits for creations under way.
  [[nodiscard]] ipam::Expected<void> BecomeCreator(const std::string& instance) const;
  // Keeps others from becoming it until the HeldFile closes. Errors: kUnavailable: another instance is it by now; kIo.
  [[nodiscard]] ipam::Expected<HeldFile> HoldCreator(const std::string& instance) const;

  // The last agent that has become it since boot, if nobody has noted that all it sent is settled; else empty.
  [[nodiscard]] std::string UnfencedCreator() const;
  void NoteFenced(const std::string& creator) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Twelve digits of `server`.
  [[nodiscard]] const std::string& server() const { return server_; }

 private:
  void ForgetOldMarks() const;

  NodeDirectory(std::string path, std::string server) : path_(std::move(path)), server_(std::move(server)) {}

  std::string path_;
  std::string server_;
};

}  // namespace berth::node
