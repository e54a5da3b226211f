// SPDX-License-Identifier: Apache-2.0
// NodeDirectory: what the processes of one node leave for one another, in files under /run.
//
// Kept there: a lock, the version of this node's last block write, writes whose outcome is open, addresses handed out
// before they were written, DELs seen lately, ADDs of berth-direct that run, and what only saves time (recent blocks
// and pools, the API server's clock). A reboot ends all of that, and so do these files; nothing in them survives the
// machine, so nothing is synced to disk. Every file is written whole, by rename.
//
// Who has the lock may write this node's blocks: agents share it as long as they live, a call of berth-direct has it to
// itself. Which of the two may try is the node's mode (node_mode.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ipam/block_store.h"
#include "node/folder.h"
#include "node/handed_out.h"
#include "node/held_file.h"

namespace berth::node {

class NodeDirectory {
 public:
  // `run_dir`/nodes/<node>, which is made if it is missing. Programs reach one API server by several addresses, so
  // `server` is no part of the path; it tells whose versions are whose. Errors: kIo.
  [[nodiscard]] static Expected<NodeDirectory> Open(const std::string& run_dir, const std::string& node,
                                                    std::string_view server);

  // Waits for the lock of this node until `deadline`, as LockExclusively does. Errors: kTimeout, kIo.
  [[nodiscard]] Expected<HeldFile> Lock(BootNanos deadline) const;
  // Whether anybody has it. Takes it for a moment.
  [[nodiscard]] bool IsLocked() const { return !Lock(/*deadline=*/0).has_value(); }
  // As it is shared by agents; does not wait. Errors: kTimeout: a call of berth-direct has it; kIo.
  [[nodiscard]] Expected<HeldFile> LockShared() const;

  // resourceVersion of the last block write of this node; empty: unknown, or written through another `server`.
  [[nodiscard]] std::string ReadVersion() const;
  // Of a write, or of a consistent list. Keeps the higher of the two; another thread may write at the same time. Empty:
  // forgets it.
  void WriteVersion(const std::string& version) const;
  // Of an object that was read: writes before that one may be newer. So what is not known stays so.
  void RaiseVersion(const std::string& version) const;

  // Intents (ipam::OpenIntent): a write is about to be sent of which the outcome may not be known.
  [[nodiscard]] Expected<std::string> OpenIntent(const ipam::Attachment& attachment, const ipam::Block& block) const;
  // The attachment's intent for that block, if it is open. One that cannot be understood counts as a creation: that is
  // settled last.
  [[nodiscard]] std::optional<ipam::OpenIntent> ReadIntent(const ipam::Attachment& attachment,
                                                           const ipam::Block& block) const;
  [[nodiscard]] Expected<void> CloseIntent(const std::string& id) const;
  [[nodiscard]] Expected<void> CloseIntent(const ipam::Attachment& attachment, const ipam::Block& block) const;
  // All whose attachment begins with `prefix`. A file that cannot be understood is an error: it may stand for a leak.
  [[nodiscard]] Expected<std::vector<ipam::OpenIntent>> ReadIntents(std::string_view prefix) const;

  // Handed out by an agent that may die before the entry is written: whoever writes the node's blocks next writes it.
  // Errors: kIo: nobody must be told the address.
  [[nodiscard]] Expected<void> NoteHandedOut(const HandedOut& handed_out) const;
  void ForgetHandedOut(const ipam::Attachment& attachment, const std::string& block) const;
  // A file that cannot be read or understood is an error: the address it stands for may be in use.
  [[nodiscard]] Expected<std::vector<HandedOut>> ReadHandedOut() const;

  // Remembers that a DEL of the attachment, started at `started`, has come; forgets those older than eleven minutes.
  [[nodiscard]] Expected<void> MarkDeleted(const ipam::Attachment& attachment, BootNanos started) const;
  [[nodiscard]] std::optional<BootNanos> DeletedAt(const ipam::Attachment& attachment) const;

  // Says that an ADD of the attachment runs, until the HeldFile closes; notes the time as NoteEnd does. Errors: kIo.
  [[nodiscard]] Expected<HeldFile> HoldRunning(const ipam::Attachment& attachment) const;
  void ForgetRunning(const ipam::Attachment& attachment) const;
  // Notes that the ADD is through now. Its file stays until ForgetRunning.
  static void NoteEnd(const HeldFile& running);
  // Attachments whose ADD runs now or was through at `since` or later.
  [[nodiscard]] Expected<std::set<ipam::Attachment>> ReadRunning(BootNanos since) const;

  // What a process leaves to those that come after it, whole or not at all; empty: takes it away. What can't be written
  // is not there.
  void WriteNote(const char* name, std::string_view text) const;
  [[nodiscard]] std::optional<std::string> ReadNote(const char* name) const;

  // From now on this instance of the agent creates blocks of the node, and no other: waits for creations under way.
  [[nodiscard]] Expected<void> BecomeNodeOwner(const std::string& instance) const;
  // Keeps others from becoming it until the HeldFile closes. Errors: kUnavailable: another instance is it by now; kIo.
  [[nodiscard]] Expected<HeldFile> HoldNodeOwnership(const std::string& instance) const;

  // Somebody has removed it: what is written there from now on nobody finds.
  [[nodiscard]] bool IsGone() const { return folders_.node.IsGone(); }
  [[nodiscard]] const std::string& path() const { return folders_.node.path(); }
  // Twelve digits of `server`.
  [[nodiscard]] const std::string& server() const { return server_; }

 private:
  struct Folders {
    Folder node;
    Folder intents;
    Folder handed_out;
    Folder deleted;
    Folder running;
  };
  NodeDirectory(Folders folders, std::string server) : folders_(std::move(folders)), server_(std::move(server)) {}
  void ForgetOldMarks() const;
  void ChangeVersion(const std::string& version, bool only_raises) const;

  Folders folders_;
  std::string server_;
};

}  // namespace berth::node
