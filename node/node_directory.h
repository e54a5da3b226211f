// SPDX-License-Identifier: Apache-2.0
// NodeDirectory: files under /run/berth, in which the processes of one node leave notes for one another.
//
// The files: a lock, the owner of the node, the resourceVersion of this node's last block write, intents, notes of
// addresses that were given before their entries were written, marks of recent DELs, running ADDs of berth-direct, and
// notes that only save time (recent blocks and pools, the API server's clock). All of these end with a reboot, so
// nothing is synced to disk. Every file with content is replaced as a whole, by rename.
//
// Only holders of the lock may write this node's blocks. Agents share the lock as long as they live; a call of
// berth-direct holds it exclusively. The node's mode (node_mode.h) says which of the two programs may take it.
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
#include "node/held_file.h"

namespace berth::node {

// The note of an address with which an agent has answered an ADD before it wrote the entry (docs/adr/0008).
struct HandedOut {
  ipam::Attachment attachment;
  std::string block;
  std::string uid;  // of the block
  ipam::BlockOffset offset = 0;
  std::string entry;

  friend bool operator==(const HandedOut&, const HandedOut&) = default;
};

// Offsets of the noted addresses that belong to this block. Leaves out an address that has an entry, and an address
// whose attachment has an entry in this block.
[[nodiscard]] ipam::OffsetSet HandedOutOf(const ipam::Block& block, const std::vector<HandedOut>& handed_out);

class NodeDirectory {
 public:
  // Opens `run_dir`/nodes/<node>, and creates it if it is missing. `server`: the API server's URL. A stored version
  // counts only for the API server with this URL. The path does not contain the URL, because programs reach one API
  // server by several URLs. Errors: kIo.
  [[nodiscard]] static Expected<NodeDirectory> Open(const std::string& run_dir, const std::string& node,
                                                    std::string_view server);

  // Waits for the node's exclusive lock until `deadline`, as LockExclusively does. Errors: kTimeout, kIo.
  [[nodiscard]] Expected<HeldFile> Lock(BootNanos deadline) const;
  // Takes the lock as agents do, which share it. Does not wait. Errors: kTimeout: a call of berth-direct holds the
  // lock; kIo.
  [[nodiscard]] Expected<HeldFile> LockShared() const;

  // resourceVersion of this node's last block write. Empty: unknown, or stored for another `server`.
  [[nodiscard]] std::string ReadVersion() const;
  // Stores `version`, of a write or of a consistent list, unless the known version is higher. Empty: forgets the
  // version. Threads may call this at the same time.
  void WriteVersion(const std::string& version) const;
  // Stores `version`, of an object that was read, if it is higher than the known version. Leaves an unknown version
  // unknown, because an earlier write may have a newer version than this object.
  void RaiseVersion(const std::string& version) const;

  // Stores an intent (ipam::OpenIntent) before a patch is sent whose outcome may become unknown. The intent has the
  // block's name, spec and resourceVersion. Returns the intent's ID.
  [[nodiscard]] Expected<std::string> OpenIntent(const ipam::Attachment& attachment, const ipam::Block& block) const;
  // The attachment's open intent for that block. A file that cannot be read or understood is an error.
  [[nodiscard]] Expected<std::optional<ipam::OpenIntent>> ReadIntent(const ipam::Attachment& attachment,
                                                                     const ipam::Block& block) const;
  [[nodiscard]] Expected<void> CloseIntent(const std::string& id) const;
  // All intents whose attachment begins with `prefix`. A file that cannot be read or understood is an error, because
  // its attachment may hold an address.
  [[nodiscard]] Expected<std::vector<ipam::OpenIntent>> ReadIntents(std::string_view prefix) const;

  // Stores a note of an address before an agent gives it, because the agent may die before it writes the entry. The
  // next program that writes the node's blocks reads the note and writes the entry.
  // Errors: kIo: the agent must not answer with the address.
  [[nodiscard]] Expected<void> NoteHandedOut(const HandedOut& handed_out) const;
  void ForgetHandedOut(const ipam::Attachment& attachment, const std::string& block) const;
  // A note that cannot be read or understood is an error, because a pod may use its address.
  [[nodiscard]] Expected<std::vector<HandedOut>> ReadHandedOut() const;

  // Records that a DEL of the attachment has come, whose process started at `started`. Removes marks, and files of
  // HoldRunning, that are older than eleven minutes.
  [[nodiscard]] Expected<void> MarkDeleted(const ipam::Attachment& attachment, BootNanos started) const;
  // The time at which the process of the attachment's latest DEL started. nullopt: no mark of a DEL since the last
  // boot. Errors: kIo: the mark cannot be read.
  [[nodiscard]] Expected<std::optional<BootNanos>> DeletedAt(const ipam::Attachment& attachment) const;

  // Records that an ADD of the attachment runs, until the HeldFile closes, and sets the file's time as NoteEnd does.
  // Errors: kIo.
  [[nodiscard]] Expected<HeldFile> HoldRunning(const ipam::Attachment& attachment) const;
  // Removes the file, unless a HeldFile of HoldRunning holds it.
  void ForgetRunning(const ipam::Attachment& attachment) const;
  // Records that the ADD ends now. The file stays until ForgetRunning, or for eleven minutes.
  static void NoteEnd(const HeldFile& running);
  // Attachments whose ADD runs now, or ended at `since` or later.
  [[nodiscard]] Expected<std::set<ipam::Attachment>> ReadRunning(BootNanos since) const;

  // Replaces the note `name` as a whole, for later processes. Empty `text`: removes the note. If the note cannot be
  // written, WriteNote removes it.
  void WriteNote(const char* name, std::string_view text) const;
  [[nodiscard]] std::optional<std::string> ReadNote(const char* name) const;

  // Makes `instance` the owner of the node: the only agent that may create blocks of the node, write Shared blocks for
  // the node, and add to its notes and journal. Waits until all HeldFiles of KeepNodeOwner and HoldNodeOwnership are
  // closed.
  [[nodiscard]] Expected<void> BecomeNodeOwner(const std::string& instance) const;
  // Makes `instance` the owner of the node if nobody is, for example because somebody has removed the files. Keeps
  // other agents from becoming the owner until the HeldFile closes. Errors: kUnavailable: another agent is the owner;
  // kIo.
  [[nodiscard]] Expected<HeldFile> KeepNodeOwner(const std::string& instance) const;
  // Keeps other agents from becoming the owner of the node until the HeldFile closes. Errors: kUnavailable: another
  // agent is the owner by now, or the owner's name cannot be read; kIo: no owner is stored, for example because
  // somebody has removed the files, or the lock fails.
  [[nodiscard]] Expected<HeldFile> HoldNodeOwnership(const std::string& instance) const;

  // True if somebody has removed the folder. Other processes then do not find files that this process writes there.
  [[nodiscard]] bool IsGone() const { return folders_.node.IsGone(); }
  // True if somebody has removed the folder, a folder in it, or the file that names the owner of the node. Other files
  // may then be gone, too. Requires: the node had an owner (BecomeNodeOwner).
  [[nodiscard]] bool IsLost() const;
  [[nodiscard]] const std::string& path() const { return folders_.node.path(); }
  // The first twelve hexadecimal digits of the hash of the API server's URL.
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
  // Like ReadVersion. Errors: kIo: the version cannot be read.
  [[nodiscard]] Expected<std::string> ReadVersionIfThere() const;
  void ChangeVersion(const std::string& version, bool only_raises) const;

  Folders folders_;
  std::string server_;
};

}  // namespace berth::node
