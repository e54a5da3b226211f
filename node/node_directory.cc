// SPDX-License-Identifier: Apache-2.0
// The files of a node's directory: lock, version, creator (the owner), intents/, handed-out/, deleted/, running/.
#include "node/node_directory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <sys/file.h>
#include <sys/stat.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "cni/attachment.h"
#include "crds/block.h"

namespace berth::node {

// The text of a note's file.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HandedOut, attachment, block, uid, offset, entry)

namespace {

using nlohmann::json;

constexpr const char* kLockFile = "lock";
constexpr const char* kVersionFile = "version";
constexpr const char* kCreatorFile = "creator";
constexpr const char* kCreatorLockFile = "creator.lock";
constexpr const char* kForgotFile = "forgot";
// An ADD takes at most 600 s (ipam.timeoutSeconds), so after 660 s every ADD has ended that started before the DEL.
constexpr BootNanos kMarkLifetime = 660 * kNanosPerSecond;
constexpr BootNanos kForgetEvery = 60 * kNanosPerSecond;

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The file's content. nullopt: the file does not exist. Errors: kIo: it cannot be read, for example because the process
// has too many open files.
Expected<std::optional<std::string>> ReadIfThere(const Folder& folder, const std::string& name) {
  auto text = folder.Read(name);
  if (!text && errno != ENOENT) return FailIo("read", folder.PathOf(name));
  return text;
}

// All files whose name begins with `prefix`: their names and contents. Leaves out a file that another process removes
// meanwhile.
Expected<std::map<std::string, std::string>> ReadAll(const Folder& folder, std::string_view prefix) {
  const auto names = folder.Names();
  if (!names) return std::unexpected(names.error());
  std::map<std::string, std::string> texts;
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix)) continue;
    auto text = ReadIfThere(folder, name);
    if (!text) return std::unexpected(text.error());
    if (*text) texts.emplace(name, **std::move(text));
  }
  return texts;
}

// nullopt: the file does not exist, or does not contain a number. Errors: kIo.
Expected<std::optional<std::int64_t>> ReadNumber(const Folder& folder, const std::string& name) {
  const auto text = ReadIfThere(folder, name);
  if (!text) return std::unexpected(text.error());
  return *text ? ParseNumber(**text) : std::nullopt;
}

std::string IntentId(const ipam::Attachment& attachment, const ipam::Block& block) {
  return attachment + "." + block.name;
}

Expected<ipam::OpenIntent> ParseIntent(const Folder& folder, const std::string& id, const std::string& text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_whole = document.is_object() && document.contains("block") && document.contains("attachment") &&
                        document["attachment"].is_string();
  auto block = is_whole ? crds::ParseBlock(document["block"]) : Fail(ErrorCode::kDecode, "is not an intent");
  if (block) {
    return ipam::OpenIntent{
        .id = id, .attachment = document["attachment"].get<std::string>(), .block = *std::move(block)};
  }
  return Fail(ErrorCode::kInternal,
              folder.PathOf(id) + ": " + block.error().message,
              "the text of the file names an attachment: check that this attachment holds no address, then remove the "
              "file");
}

Expected<HandedOut> ParseHandedOut(const std::string& text) {
  try {
    const json document = json::parse(text);
    // `get` alone would turn -1 and 7.5 into other offsets: get_ref refuses them.
    static_cast<void>(document.at("offset").get_ref<const json::number_unsigned_t&>());
    return document.get<HandedOut>();
  } catch (const json::exception&) {
    return Fail(ErrorCode::kDecode, "is not a note about an address");
  }
}

// The time that NoteEnd stored. nullopt: it cannot be read.
std::optional<BootNanos> EndOf(const HeldFile& running) {
  struct stat facts = {};
  if (fstat(running.descriptor(), &facts) != 0) return std::nullopt;
  return facts.st_mtim.tv_sec * kNanosPerSecond + facts.st_mtim.tv_nsec;
}

// Opens and locks the file of an ADD that has ended. While it is locked, HoldRunning waits for the lock. nullopt: the
// ADD runs, or another process has removed the file meanwhile, and the name may be that of a younger file.
std::optional<HeldFile> LockEnded(const Folder& folder, const std::string& name) {
  auto file = folder.OpenFile(name, O_RDWR);
  if (!file || flock(file->descriptor(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  struct stat facts = {};
  if (fstat(file->descriptor(), &facts) != 0 || facts.st_nlink == 0) return std::nullopt;
  return *std::move(file);
}

}  // namespace

ipam::OffsetSet HandedOutOf(const ipam::Block& block, const std::vector<HandedOut>& handed_out) {
  ipam::OffsetSet offsets;
  for (const HandedOut& one : handed_out) {
    const bool is_here = one.uid == block.uid && one.offset < block.size();
    if (is_here && !block.allocations.contains(one.offset) && !ipam::Find(block, one.attachment)) {
      offsets.insert(one.offset);
    }
  }
  return offsets;
}

Expected<NodeDirectory> NodeDirectory::Open(const std::string& run_dir, const std::string& node,
                                            std::string_view server) {
  const auto run = Folder::Open(run_dir);
  if (!run) return std::unexpected(run.error());
  const auto nodes = run->Sub("nodes");
  if (!nodes) return std::unexpected(nodes.error());
  auto folder = nodes->Sub(node);
  if (!folder) return std::unexpected(folder.error());
  std::array<Expected<Folder>, 4> inside = {
      folder->Sub("intents"), folder->Sub("handed-out"), folder->Sub("deleted"), folder->Sub("running")};
  for (const auto& one : inside) {
    if (!one) return std::unexpected(one.error());
  }
  return NodeDirectory({.node = *std::move(folder),
                        .intents = *std::move(inside[0]),
                        .handed_out = *std::move(inside[1]),
                        .deleted = *std::move(inside[2]),
                        .running = *std::move(inside[3])},
                       cni::NetworkDigits(server));
}

Expected<HeldFile> NodeDirectory::Lock(BootNanos deadline) const {
  auto file = folders_.node.OpenFile(kLockFile, O_RDWR | O_CREAT);
  if (!file) return file;
  const auto is_locked = LockExclusively(*file, deadline);
  if (!is_locked) return std::unexpected(is_locked.error().Within(folders_.node.PathOf(kLockFile)));
  if (*is_locked) return file;
  return Fail(ErrorCode::kTimeout,
              "other calls of this node, or its agent, held " + folders_.node.PathOf(kLockFile) +
                  " until ipam.timeoutSeconds had passed",
              "the runtime tries the call again; is the API server slow?");
}

Expected<HeldFile> NodeDirectory::LockShared() const {
  auto file = folders_.node.OpenFile(kLockFile, O_RDWR | O_CREAT);
  if (!file || flock(file->descriptor(), LOCK_SH | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return FailIo("lock", folders_.node.PathOf(kLockFile));
  return Fail(ErrorCode::kTimeout,
              "a call of berth-direct has not ended",
              "if that process hangs, end it; the agent tries again");
}

std::string NodeDirectory::ReadVersion() const { return ReadVersionIfThere().value_or(""); }

Expected<std::string> NodeDirectory::ReadVersionIfThere() const {
  const auto read = ReadIfThere(folders_.node, kVersionFile);
  if (!read) return std::unexpected(read.error());
  const std::string text = read->value_or("");
  const std::string whose = server_ + " ";
  return text.starts_with(whose) && ParseNumber(text.substr(whose.size())) ? text.substr(whose.size()) : "";
}

void NodeDirectory::WriteVersion(const std::string& version) const { ChangeVersion(version, /*only_raises=*/false); }

void NodeDirectory::RaiseVersion(const std::string& version) const { ChangeVersion(version, /*only_raises=*/true); }

void NodeDirectory::ChangeVersion(const std::string& version, bool only_raises) const {
  // The node's lock does not exclude other threads of this process.
  static Mutex mutex;
  const berth::Lock lock(mutex);
  const auto known = ReadVersionIfThere();
  // The known version cannot be read, and may be newer than `version`: forget it.
  if (!known) return WriteNote(kVersionFile, "");
  if (only_raises && known->empty()) return;
  const std::int64_t newer = ParseNumber(version).value_or(0);
  if (newer > 0 && ParseNumber(*known).value_or(0) >= newer) return;
  // If the new version cannot be written, remove the old one: an outdated version would lead to outdated lists. Without
  // a version the next call sends a consistent LIST, which is slower but correct.
  WriteNote(kVersionFile, newer > 0 ? server_ + " " + std::to_string(newer) : "");
}

Expected<std::string> NodeDirectory::OpenIntent(const ipam::Attachment& attachment, const ipam::Block& block) const {
  std::string id = IntentId(attachment, block);
  // The entries of a block may have 200 KB, and nobody who reads the intent needs them.
  ipam::Block named;
  named.name = block.name;
  named.space = block.space;
  named.pool = block.pool;
  named.pool_uid = block.pool_uid;
  named.cidr = block.cidr;
  named.node = block.node;
  json document = {{"attachment", attachment}, {"block", crds::BlockToJson(named)}};
  document["block"]["metadata"]["resourceVersion"] = block.resource_version;
  const auto written = folders_.intents.Write(id, document.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!written) return std::unexpected(written.error());
  return id;
}

Expected<std::optional<ipam::OpenIntent>> NodeDirectory::ReadIntent(const ipam::Attachment& attachment,
                                                                    const ipam::Block& block) const {
  const std::string id = IntentId(attachment, block);
  const auto text = ReadIfThere(folders_.intents, id);
  if (!text) return std::unexpected(text.error());
  if (!*text) return std::nullopt;
  return ParseIntent(folders_.intents, id, **text);
}

Expected<void> NodeDirectory::CloseIntent(const std::string& id) const { return folders_.intents.Remove(id); }

Expected<std::vector<ipam::OpenIntent>> NodeDirectory::ReadIntents(std::string_view prefix) const {
  std::vector<ipam::OpenIntent> intents;
  const auto texts = ReadAll(folders_.intents, prefix);
  if (!texts) return std::unexpected(texts.error());
  for (const auto& [name, text] : *texts) {
    auto intent = ParseIntent(folders_.intents, name, text);
    if (!intent) return std::unexpected(intent.error());
    intents.push_back(*std::move(intent));
  }
  return intents;
}

Expected<void> NodeDirectory::NoteHandedOut(const HandedOut& handed_out) const {
  return folders_.handed_out.Write(handed_out.attachment + "." + handed_out.block,
                                   json(handed_out).dump(-1, ' ', false, json::error_handler_t::replace));
}

void NodeDirectory::ForgetHandedOut(const ipam::Attachment& attachment, const std::string& block) const {
  // If the note stays, the next agent finds the entry in the block and ignores the note.
  static_cast<void>(folders_.handed_out.Remove(attachment + "." + block).has_value());
}

Expected<std::vector<HandedOut>> NodeDirectory::ReadHandedOut() const {
  std::vector<HandedOut> all;
  const auto texts = ReadAll(folders_.handed_out, "");
  if (!texts) return std::unexpected(texts.error());
  for (const auto& [name, text] : *texts) {
    auto one = ParseHandedOut(text);
    if (!one) {
      return Fail(ErrorCode::kInternal,
                  folders_.handed_out.PathOf(name) + ": " + one.error().message,
                  "the text of the file names an address: check that no pod uses this address, then remove the file");
    }
    all.push_back(*std::move(one));
  }
  return all;
}

Expected<void> NodeDirectory::MarkDeleted(const ipam::Attachment& attachment, BootNanos started) const {
  // Calls may arrive in another order than they started: keep the latest start. An unreadable mark may name any start
  // until now, so the present time replaces it.
  const auto known = DeletedAt(attachment);
  const BootNanos latest = known ? std::max(started, known->value_or(started)) : BootTimeNow();
  auto marked =
      known && *known == latest ? Expected<void>() : folders_.deleted.Write(attachment, std::to_string(latest));
  ForgetOldMarks();
  return marked;
}

void NodeDirectory::ForgetOldMarks() const {
  // Clean at most once a minute: with a thousand marks it takes milliseconds. The times are in the files' content; the
  // files' own times would be wrong after somebody sets the host's clock.
  const BootNanos now = BootTimeNow();
  const auto is_younger = [now](const std::optional<BootNanos>& time, BootNanos age) {
    // A time in the future is from before a reboot, which did not clear the directory.
    return time && *time <= now && now - *time < age;
  };
  const auto forgot = ReadNumber(folders_.node, kForgotFile);
  if (forgot && is_younger(*forgot, kForgetEvery)) return;
  // If Write fails, for example because the disk is full, still remove the old files below.
  static_cast<void>(folders_.node.Write(kForgotFile, std::to_string(now)).has_value());
  const auto names = folders_.deleted.Names();
  if (!names) return;
  for (const std::string& name : *names) {
    if (!cni::IsAttachment(name)) continue;
    const auto marked = ReadNumber(folders_.deleted, name);
    if (!marked || is_younger(*marked, kMarkLifetime)) continue;
    static_cast<void>(folders_.deleted.Remove(name).has_value());
  }
  // The DEL of an attachment removes the file of its ADD (ForgetRunning). If no DEL comes, remove the file here.
  const auto running = folders_.running.Names();
  if (!running) return;
  for (const std::string& name : *running) {
    const auto file = LockEnded(folders_.running, name);
    if (file && !is_younger(EndOf(*file), kMarkLifetime)) static_cast<void>(folders_.running.Remove(name).has_value());
  }
}

Expected<std::optional<BootNanos>> NodeDirectory::DeletedAt(const ipam::Attachment& attachment) const {
  auto marked = ReadNumber(folders_.deleted, attachment);
  // A time in the future is from before a reboot, which did not clear the directory: CLOCK_BOOTTIME restarts at 0.
  if (marked && *marked && **marked > BootTimeNow()) return std::nullopt;
  return marked;
}

void NodeDirectory::WriteNote(const char* name, std::string_view text) const {
  if (!text.empty() && folders_.node.Write(name, text)) return;
  static_cast<void>(folders_.node.Remove(name).has_value());
}

std::optional<std::string> NodeDirectory::ReadNote(const char* name) const { return folders_.node.Read(name); }

Expected<void> NodeDirectory::BecomeNodeOwner(const std::string& instance) const {
  const auto file = folders_.node.OpenFile(kCreatorLockFile, O_RDWR | O_CREAT);
  if (!file) return std::unexpected(file.error());
  if (flock(file->descriptor(), LOCK_EX) != 0) return FailIo("lock", folders_.node.PathOf(kCreatorLockFile));
  return folders_.node.Write(kCreatorFile, instance);
}

Expected<HeldFile> NodeDirectory::HoldNodeOwnership(const std::string& instance) const {
  auto file = folders_.node.OpenFile(kCreatorLockFile, O_RDWR | O_CREAT);
  if (!file) return file;
  if (flock(file->descriptor(), LOCK_SH) != 0) return FailIo("lock", folders_.node.PathOf(kCreatorLockFile));
  const auto owner = ReadIfThere(folders_.node, kCreatorFile);
  if (owner && *owner == instance) return file;
  if (owner && !*owner) {
    return Fail(ErrorCode::kIo,
                folders_.node.PathOf(kCreatorFile) + " was removed",
                "the agent starts again, and the runtime tries the call again");
  }
  // If the file cannot be read, return the same error: the agent then ends, and the next agent writes the file anew.
  return Fail(ErrorCode::kUnavailable, "another agent has taken over this node", "the runtime tries the call again");
}

Expected<HeldFile> NodeDirectory::KeepNodeOwner(const std::string& instance) const {
  auto file = folders_.node.OpenFile(kCreatorLockFile, O_RDWR | O_CREAT);
  if (!file) return file;
  if (flock(file->descriptor(), LOCK_EX) != 0) return FailIo("lock", folders_.node.PathOf(kCreatorLockFile));
  const auto owner = ReadIfThere(folders_.node, kCreatorFile);
  if (!owner) return std::unexpected(owner.error());
  if (*owner && **owner != instance) return Fail(ErrorCode::kUnavailable, "another agent has taken over this node");
  if (!*owner) {
    if (auto written = folders_.node.Write(kCreatorFile, instance); !written) return std::unexpected(written.error());
  }
  return file;
}

bool NodeDirectory::IsLost() const {
  const auto owner = ReadIfThere(folders_.node, kCreatorFile);
  return IsGone() || folders_.intents.IsGone() || folders_.handed_out.IsGone() || folders_.deleted.IsGone() ||
         folders_.running.IsGone() || (owner && !*owner);
}

Expected<HeldFile> NodeDirectory::HoldRunning(const ipam::Attachment& attachment) const {
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries; ++tries) {
    auto file = folders_.running.OpenFile(attachment, O_RDWR | O_CREAT);
    if (!file) return file;
    // A shared lock: two ADDs of one attachment may run at once, and the file counts as locked until both have ended.
    // Others hold the exclusive lock only while they read the file's time, and maybe remove the file.
    if (flock(file->descriptor(), LOCK_SH) != 0) return FailIo("lock", folders_.running.PathOf(attachment));
    struct stat facts = {};
    if (fstat(file->descriptor(), &facts) != 0) return FailIo("stat", folders_.running.PathOf(attachment));
    if (facts.st_nlink == 0) continue;  // another process removed the file before this one had the lock
    NoteEnd(*file);
    return file;
  }
  errno = ESTALE;  // another process removed the file each time
  return FailIo("lock", folders_.running.PathOf(attachment));
}

void NodeDirectory::ForgetRunning(const ipam::Attachment& attachment) const {
  // Keep the file locked until it is removed, so that no later ADD of the attachment uses it.
  const auto file = LockEnded(folders_.running, attachment);
  if (file) static_cast<void>(folders_.running.Remove(attachment).has_value());
}

void NodeDirectory::NoteEnd(const HeldFile& running) {
  // Store CLOCK_BOOTTIME as the file's time, because somebody may set the wall clock at any moment.
  const BootNanos now = BootTimeNow();
  const timespec time{.tv_sec = now / kNanosPerSecond, .tv_nsec = now % kNanosPerSecond};
  const std::array times = {time, time};
  futimens(running.descriptor(), times.data());
}

Expected<std::set<ipam::Attachment>> NodeDirectory::ReadRunning(BootNanos since) const {
  std::set<ipam::Attachment> running;
  const auto names = folders_.running.Names();
  if (!names) return std::unexpected(names.error());
  for (const std::string& attachment : *names) {
    const auto file = folders_.running.OpenFile(attachment, O_RDWR);
    if (!file && errno == ENOENT) continue;  // another process has removed the file meanwhile
    if (!file) return std::unexpected(file.error());
    const bool is_locked = flock(file->descriptor(), LOCK_EX | LOCK_NB) != 0;
    const auto ended = EndOf(*file);
    // A file's time in the future is from before a reboot, or from an earlier version of berth.
    if (is_locked || (ended && *ended >= since && *ended <= BootTimeNow())) running.insert(attachment);
  }
  return running;
}

}  // namespace berth::node
