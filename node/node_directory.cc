// SPDX-License-Identifier: Apache-2.0
// The files of a node's directory: lock, agent.lock, version, creator, fenced, intents/, handed-out/, deleted/,
// running/.
#include "node/node_directory.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <iterator>
#include <mutex>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "cni/attachment.h"
#include "crds/block.h"
#include "node/random_name.h"

namespace berth::node {

namespace {

namespace fs = std::filesystem;
using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using nlohmann::json;

constexpr BootNanos kNanosPerSecond = 1'000'000'000;
constexpr const char* kFencedNote = "fenced";
// An ADD may take ten minutes (ipam.timeoutSeconds). One that began before the DEL is over by then.
constexpr BootNanos kMarkLifetime = 660 * kNanosPerSecond;
constexpr BootNanos kForgetEvery = 60 * kNanosPerSecond;
constexpr std::size_t kProcessDigits = 12;
constexpr std::size_t kStateFileBytesMax = std::size_t{1} << 20;

std::string LastError() { return std::strerror(errno); }

std::unexpected<ipam::Error> FailIo(std::string_view what, const std::string& path) {
  return Fail(ErrorCode::kIo,
              std::string(what) + " " + path + ": " + LastError(),
              "is ipam.stateDir on a writable file system with room?");
}

Expected<void> WriteWhole(const std::string& path, std::string_view text) {
  static const std::string kProcess = RandomDigits(kProcessDigits);
  static std::atomic<unsigned> number{0};
  const std::string part = path + ".part." + kProcess + "." + std::to_string(++number);
  HeldFile file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return FailIo("create", part);
  const ssize_t written = write(file.descriptor(), text.data(), text.size());
  file.Close();
  if (written != static_cast<ssize_t>(text.size()) || rename(part.c_str(), path.c_str()) != 0) {
    auto failure = FailIo("write", path);
    unlink(part.c_str());
    return failure;
  }
  return {};
}

// Not by a stream, whose buffer of 8 KB is what malloc clears its small free pieces up for, each time.
std::optional<std::string> ReadWhole(const std::string& path) {
  const HeldFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills what is used of it
  while (text.size() <= kStateFileBytesMax) {
    const ssize_t got = read(file.descriptor(), buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0) return std::nullopt;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> ReadNumber(const std::string& path) {
  const auto text = ReadWhole(path);
  return text ? ParseNumber(*text) : std::nullopt;
}

// Names in a directory, without the parts of writes that never ended. Not by opendir(3), which allocates 32 KB each
// time; most often there is nothing.
Expected<std::vector<std::string>> FileNames(const std::string& directory) {
  std::vector<std::string> names;
  const HeldFile file(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return names;
  if (!file.is_open()) return FailIo("open", directory);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): getdents64() fills what is used of it
  alignas(dirent64) std::array<char, 4096> buffer;
  while (true) {
    const ssize_t got = getdents64(file.descriptor(), buffer.data(), buffer.size());
    if (got < 0) return FailIo("read", directory);
    if (got == 0) return names;
    for (ssize_t at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name != "." && name != ".." && !name.contains(".part.")) names.emplace_back(name);
    }
  }
}

std::string IntentId(const ipam::Attachment& attachment, const ipam::Block& block) {
  return attachment + "." + block.name;
}

Expected<ipam::OpenIntent> ParseIntent(const std::string& id, const std::string& text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_whole = document.is_object() && document.contains("block") && document.contains("attachment") &&
                        document["attachment"].is_string();
  if (!is_whole) return Fail(ErrorCode::kDecode, "is not an intent");
  auto block = crds::ParseBlock(document["block"]);
  if (!block) return std::unexpected(block.error());
  return ipam::OpenIntent{
      .id = id, .attachment = document["attachment"].get<std::string>(), .block = *std::move(block)};
}

// What the file `version` says.
struct LastVersion {
  std::string server;
  std::int64_t version = 0;  // 0: forgotten
  // How often it was forgotten, or of another server than before: so a text that was there does not come back.
  std::int64_t changes = 0;
};

std::optional<LastVersion> ParseVersion(std::string_view text) {
  const std::size_t first = text.find(' ');
  const std::size_t second = text.rfind(' ');
  if (first == std::string_view::npos || first == second) return std::nullopt;
  const auto version = ParseNumber(text.substr(first + 1, second - first - 1));
  const auto changes = ParseNumber(text.substr(second + 1));
  if (!version || !changes) return std::nullopt;
  return LastVersion{.server = std::string(text.substr(0, first)), .version = *version, .changes = *changes};
}

// While it lives, a signal comes every 50 ms, so that a blocking flock(2) returns and looks at the time. (An open file
// has no other way to wait for its lock with a time limit, in the order in which the others came.)
class Alarm {
 public:
  Alarm() {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, &before_);
    constexpr itimerval kEvery = {.it_interval = {.tv_sec = 0, .tv_usec = 50'000},
                                  .it_value = {.tv_sec = 0, .tv_usec = 50'000}};
    setitimer(ITIMER_REAL, &kEvery, nullptr);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() {
    constexpr itimerval kNever = {};
    setitimer(ITIMER_REAL, &kNever, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ = {};
};

}  // namespace

BootNanos BootTimeNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<BootNanos>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
}

HeldFile::HeldFile(HeldFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

HeldFile& HeldFile::operator=(HeldFile&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void HeldFile::Close() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

Expected<NodeDirectory> NodeDirectory::Open(const std::string& state_dir, const std::string& node,
                                            std::string_view server) {
  const std::string path = state_dir + "/nodes/" + node;
  for (const char* folder : {"/intents", "/handed-out", "/deleted", "/running"}) {
    std::error_code error;
    fs::create_directories(path + folder, error);
    if (error) {
      return Fail(ErrorCode::kIo,
                  "create " + path + folder + ": " + error.message(),
                  "is ipam.stateDir on a writable file system with room?");
    }
  }
  return NodeDirectory(path, cni::NetworkDigits(server));
}

Expected<HeldFile> NodeDirectory::TryLock() const {
  const std::string path = path_ + "/lock";
  HeldFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return FailIo("open", path);
  if (flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return FailIo("lock", path);
  return HeldFile();
}

Expected<HeldFile> NodeDirectory::Lock(BootNanos deadline) const {
  const std::string path = path_ + "/lock";
  HeldFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return FailIo("open", path);
  if (flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return file;
  const Alarm alarm;
  while (flock(file.descriptor(), LOCK_EX) != 0) {
    if (errno != EINTR) return FailIo("lock", path);
    if (BootTimeNow() >= deadline) {
      return Fail(ErrorCode::kTimeout,
                  "other calls of this node held " + path + " until ipam.timeoutSeconds were over",
                  "the call is tried again; is the API server slow?");
    }
  }
  return file;
}

// A record lock, because one can ask for those without taking them: nobody ever waits for this one.
Expected<HeldFile> NodeDirectory::HoldAgent() const {
  const std::string path = path_ + "/agent.lock";
  HeldFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock all = {};
  all.l_type = F_RDLCK;
  if (!file.is_open() || fcntl(file.descriptor(), F_OFD_SETLK, &all) != 0) return FailIo("lock", path);
  return file;
}

bool NodeDirectory::HasAgent() const {
  const HeldFile file(open((path_ + "/agent.lock").c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) return errno != ENOENT;
  struct flock all = {};
  all.l_type = F_WRLCK;
  return fcntl(file.descriptor(), F_OFD_GETLK, &all) != 0 || all.l_type != F_UNLCK;
}

std::string NodeDirectory::LastWrite() const { return ReadWhole(path_ + "/version").value_or(""); }

std::string NodeDirectory::ReadVersion() const {
  const auto last = ParseVersion(LastWrite());
  return last && last->server == server_ && last->version > 0 ? std::to_string(last->version) : "";
}

void NodeDirectory::WriteVersion(const std::string& version) const {
  // Threads of one process have no lock of the node among them.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const std::string path = path_ + "/version";
  const HeldFile turn(open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!turn.is_open() || flock(turn.descriptor(), LOCK_EX) != 0) {
    unlink(path.c_str());
    return;
  }
  const std::int64_t newer = ParseNumber(version).value_or(0);
  auto last = ParseVersion(LastWrite()).value_or(LastVersion{.server = server_});
  const bool is_ours = last.server == server_;
  if (is_ours && newer > 0 && last.version >= newer) return;
  if (!is_ours || newer == 0) ++last.changes;
  const std::string text = server_ + " " + std::to_string(newer) + " " + std::to_string(last.changes);
  // Without the file the next call makes a consistent LIST: slower, and as right. An old version left standing would be
  // wrong, so it goes if the new one cannot be written.
  if (!WriteWhole(path, text)) unlink(path.c_str());
}

Expected<std::string> NodeDirectory::OpenIntent(const ipam::Attachment& attachment, const ipam::Block& block) const {
  std::string id = IntentId(attachment, block);
  json document = {{"attachment", attachment}, {"block", crds::BlockToJson(block)}};
  if (!block.resource_version.empty()) document["block"]["metadata"]["resourceVersion"] = block.resource_version;
  const auto written =
      WriteWhole(path_ + "/intents/" + id, document.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!written) return std::unexpected(written.error());
  return id;
}

std::optional<ipam::OpenIntent> NodeDirectory::ReadIntent(const ipam::Attachment& attachment,
                                                          const ipam::Block& block) const {
  const std::string id = IntentId(attachment, block);
  const auto text = ReadWhole(path_ + "/intents/" + id);
  if (!text) return std::nullopt;
  auto intent = ParseIntent(id, *text);
  if (intent) return *std::move(intent);
  return ipam::OpenIntent{.id = id, .attachment = attachment, .block = {}};
}

Expected<void> NodeDirectory::CloseIntent(const std::string& id) const {
  const std::string path = path_ + "/intents/" + id;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return FailIo("remove", path);
  return {};
}

Expected<void> NodeDirectory::CloseIntent(const ipam::Attachment& attachment, const ipam::Block& block) const {
  return CloseIntent(IntentId(attachment, block));
}

Expected<std::vector<ipam::OpenIntent>> NodeDirectory::ReadIntents(std::string_view prefix) const {
  std::vector<ipam::OpenIntent> intents;
  const auto names = FileNames(path_ + "/intents");
  if (!names) return std::unexpected(names.error());
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix)) continue;
    const std::string path = path_ + "/intents/" + name;
    const auto text = ReadWhole(path);
    if (!text) continue;  // closed meanwhile
    auto intent = ParseIntent(name, *text);
    if (!intent) {
      return Fail(ErrorCode::kInternal,
                  path + ": " + intent.error().message,
                  "look at the file, make sure that the attachment it names holds no address, then remove it");
    }
    intents.push_back(*std::move(intent));
  }
  return intents;
}

Expected<void> NodeDirectory::NoteHandedOut(const HandedOut& handed_out) const {
  return WriteWhole(path_ + "/handed-out/" + handed_out.attachment + "." + handed_out.block,
                    FormatHandedOut(handed_out));
}

void NodeDirectory::ForgetHandedOut(const ipam::Attachment& attachment, const std::string& block) const {
  unlink((path_ + "/handed-out/" + attachment + "." + block).c_str());
}

void NodeDirectory::ForgetHandedOut(const ipam::Attachment& attachment) const {
  const auto names = FileNames(path_ + "/handed-out");
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.starts_with(attachment + ".")) unlink((path_ + "/handed-out/" + name).c_str());
  }
}

Expected<std::vector<HandedOut>> NodeDirectory::ReadHandedOut() const {
  std::vector<HandedOut> all;
  const std::string folder = path_ + "/handed-out";
  std::error_code error;
  fs::directory_iterator notes(folder, error);
  for (; !error && notes != fs::directory_iterator(); notes.increment(error)) {
    const std::string path = notes->path().string();
    if (path.find(".part.") != std::string::npos) continue;
    errno = 0;
    const auto text = ReadWhole(path);
    if (!text && errno == ENOENT) continue;  // forgotten meanwhile
    if (!text) return FailIo("read", path);
    auto one = ParseHandedOut(*text);
    if (!one) {
      return Fail(ErrorCode::kInternal,
                  path + ": " + one.error().message,
                  "look at the file, make sure that no pod uses the address it names, then remove it");
    }
    all.push_back(*std::move(one));
  }
  if (error) return Fail(ErrorCode::kIo, "read " + folder + ": " + error.message());
  return all;
}

Expected<void> NodeDirectory::MarkDeleted(const ipam::Attachment& attachment, BootNanos started) const {
  // The newest counts, whatever order they arrive in.
  const auto known = DeletedAt(attachment);
  auto marked = known && *known >= started ? Expected<void>()
                                           : WriteWhole(path_ + "/deleted/" + attachment, std::to_string(started));
  ForgetOldMarks();
  return marked;
}

void NodeDirectory::ForgetOldMarks() const {
  // Not at every DEL: a thousand marks take milliseconds to look through. By the time in the files and not of them: the
  // host's clock may be set, back or forth.
  const std::string stamp = path_ + "/forgot";
  const BootNanos now = BootTimeNow();
  const auto is_younger = [now](const std::optional<BootNanos>& time, BootNanos age) {
    // One that lies ahead is from before a reboot that did not clear the directory.
    return time && *time <= now && now - *time < age;
  };
  if (is_younger(ReadNumber(stamp), kForgetEvery)) return;
  if (!WriteWhole(stamp, std::to_string(now))) return;
  const auto names = FileNames(path_ + "/deleted");
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string path = path_ + "/deleted/" + name;
    if (!is_younger(ReadNumber(path), kMarkLifetime)) unlink(path.c_str());
  }
}

std::optional<BootNanos> NodeDirectory::DeletedAt(const ipam::Attachment& attachment) const {
  const auto marked = ReadNumber(path_ + "/deleted/" + attachment);
  // From before a reboot that did not clear the directory: the clock began anew.
  if (!marked || *marked > BootTimeNow()) return std::nullopt;
  return marked;
}

void NodeDirectory::WriteNote(const char* name, std::string_view text) const {
  const std::string path = path_ + "/" + name;
  if (text.empty() || !WriteWhole(path, text)) unlink(path.c_str());
}

std::optional<std::string> NodeDirectory::ReadNote(const char* name) const { return ReadWhole(path_ + "/" + name); }

std::string NodeDirectory::UnfencedCreator() const {
  std::string creator = ReadWhole(path_ + "/creator").value_or("");
  if (!creator.empty() && ReadNote(kFencedNote) == creator) creator.clear();
  return creator;
}

void NodeDirectory::NoteFenced(const std::string& creator) const { WriteNote(kFencedNote, creator); }

Expected<void> NodeDirectory::BecomeCreator(const std::string& instance) const {
  const std::string path = path_ + "/creator.lock";
  const HeldFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open() || flock(file.descriptor(), LOCK_EX) != 0) return FailIo("lock", path);
  return WriteWhole(path_ + "/creator", instance);
}

Expected<HeldFile> NodeDirectory::HoldCreator(const std::string& instance) const {
  const std::string path = path_ + "/creator.lock";
  HeldFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open() || flock(file.descriptor(), LOCK_SH) != 0) return FailIo("lock", path);
  if (ReadWhole(path_ + "/creator") == instance) return file;
  return Fail(ErrorCode::kUnavailable, "another agent serves this node by now", "the call is tried again");
}

Expected<HeldFile> NodeDirectory::HoldRunning(const ipam::Attachment& attachment) const {
  const std::string path = path_ + "/running/" + attachment;
  HeldFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return FailIo("create", path);
  // Shared: a second ADD of the attachment may run at once; either keeps it alive.
  if (flock(file.descriptor(), LOCK_SH | LOCK_NB) != 0 && errno != EWOULDBLOCK) return FailIo("lock", path);
  return file;
}

void NodeDirectory::ForgetRunning(const ipam::Attachment& attachment) const {
  unlink((path_ + "/running/" + attachment).c_str());
}

bool NodeDirectory::HasRun(const ipam::Attachment& attachment) const {
  return access((path_ + "/running/" + attachment).c_str(), F_OK) == 0;
}

void NodeDirectory::NoteEnd(const HeldFile& running) {
  // Not "now" by the kernel, whose clock for files is a few milliseconds behind.
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::array times = {now, now};
  futimens(running.descriptor(), times.data());
}

Expected<std::set<ipam::Attachment>> NodeDirectory::ReadRunning(std::int64_t since_ms) const {
  constexpr std::int64_t kMillisPerSecond = 1000;
  constexpr std::int64_t kNanosPerMilli = 1'000'000;
  std::set<ipam::Attachment> running;
  const std::string directory = path_ + "/running/";
  const auto names = FileNames(directory);
  if (!names) return std::unexpected(names.error());
  for (const std::string& attachment : *names) {
    const HeldFile file(open((directory + attachment).c_str(), O_RDWR | O_CLOEXEC));
    struct stat facts = {};
    if (!file.is_open() || fstat(file.descriptor(), &facts) != 0) continue;  // forgotten meanwhile
    // Files of ADDs that are through stay until DEL: removing one here could hide an ADD that is about to lock it.
    const bool is_locked = flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0;
    const std::int64_t ended_ms = facts.st_mtim.tv_sec * kMillisPerSecond + facts.st_mtim.tv_nsec / kNanosPerMilli;
    if (is_locked || ended_ms >= since_ms) running.insert(attachment);
  }
  return running;
}

}  // namespace berth::node
