// SPDX-License-Identifier: Apache-2.0
// Uses openat(2) and the like, with O_NOFOLLOW.
#include "node/folder.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace berth::node {

namespace {

constexpr std::size_t kProcessDigits = 12;
constexpr std::string_view kPartPrefix = ".part.";  // each temporary name begins with it, and no other name
constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0600;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// True if `name` can only name an entry of the folder itself. Some names come from files in the folder, and other
// programs may have written these files.
bool IsPlain(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

// Opens a folder, and creates it if it is missing. On failure the result is not open, and errno says why.
HeldFile OpenOrMake(int at, const char* name) {
  HeldFile folder(openat(at, name, kOpenFolder));
  if (folder.is_open() || errno != ENOENT) return folder;
  if (mkdirat(at, name, kFolderMode) != 0 && errno != EEXIST) return folder;
  return HeldFile(openat(at, name, kOpenFolder));
}

}  // namespace

// std::random_device is not available to `berth` (docs/adr/0009).
std::string RandomDigits(std::size_t count) {
  std::string digits(count, '0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = getrandom(digits.data() + have, count - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  for (char& digit : digits) digit = "0123456789abcdef"[static_cast<unsigned char>(digit) % 16];
  return digits;
}

Expected<std::string> MachineName(const Folder& state) {
  constexpr const char* kFile = "machine";
  constexpr std::size_t kDigits = 8;
  // Empty: the file is missing, or its content is not a name.
  const auto read_name = [&state] {
    const std::string text = state.Read(kFile).value_or("");
    const std::string name = text.substr(0, text.find('\n'));
    const bool is_name =
        name.size() == kDigits && name.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    return is_name ? name : "";
  };
  if (std::string known = read_name(); !known.empty()) return known;
  const std::string name = RandomDigits(kDigits);
  if (auto written = state.Write(kFile, name + "\n", FileSync::kYes); !written) return std::unexpected(written.error());
  // Another process may have written another name meanwhile: use the name that is in the file now.
  const std::string made = read_name();
  return made.empty() ? name : made;
}

std::unexpected<Error> FailIo(std::string_view what, const std::string& path) {
  return Fail(ErrorCode::kIo,
              std::string(what) + " " + path + ": " + std::strerror(errno),
              "possible causes: the file system is full or read-only, or the path is a symbolic link");
}

Expected<Folder> Folder::Open(const std::string& path, IfMissing missing) {
  HeldFile folder(open(path.c_str(), kOpenFolder));
  if (!folder.is_open() && errno == ENOENT && missing == IfMissing::kMake) {
    for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
      mkdir(path.substr(0, end).c_str(), kFolderMode);
    }
    folder = OpenOrMake(AT_FDCWD, path.c_str());
  }
  if (!folder.is_open()) return FailIo("open", path);
  return Folder(path, std::move(folder));
}

Expected<Folder> Folder::Sub(const std::string& name, FileSync sync) const {
  errno = EINVAL;
  HeldFile folder = IsPlain(name) ? OpenOrMake(file_->descriptor(), name.c_str()) : HeldFile();
  if (!folder.is_open()) return FailIo("open", PathOf(name));
  if (auto synced = sync == FileSync::kYes ? Sync() : Expected<void>(); !synced) return std::unexpected(synced.error());
  return Folder(PathOf(name), std::move(folder));
}

Expected<HeldFile> Folder::OpenFile(const std::string& name, int flags) const {
  errno = EINVAL;
  // O_NONBLOCK: if somebody has put a pipe there, open(2) must not wait for a writer.
  const int all_flags = flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  HeldFile file(IsPlain(name) ? openat(file_->descriptor(), name.c_str(), all_flags, kFileMode) : -1);
  if (!file.is_open()) return FailIo("open", PathOf(name));
  return file;
}

// Uses read(2) instead of a stream: a stream allocates 8 KB, and each such allocation makes malloc merge its small free
// chunks.
std::optional<std::string> Folder::Read(const std::string& name, std::size_t bytes_max) const {
  const auto file = OpenFile(name, O_RDONLY);
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills the part that is used
  while (text.size() <= bytes_max) {
    const ssize_t got = read(file->descriptor(), buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0) return std::nullopt;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  errno = EFBIG;
  return std::nullopt;
}

Expected<void> Folder::Write(const std::string& name, std::string_view text, FileSync sync) const {
  static const std::string kProcess = RandomDigits(kProcessDigits);
  static std::atomic<unsigned> number{0};
  errno = EINVAL;
  if (!IsPlain(name)) return FailIo("write", PathOf(name));
  const std::string part = std::string(kPartPrefix) + kProcess + "." + std::to_string(++number);
  auto file = OpenFile(part, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return std::unexpected(file.error());
  const bool is_written = write(file->descriptor(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                          (sync == FileSync::kNo || fdatasync(file->descriptor()) == 0);
  file->Close();
  const int at = file_->descriptor();
  if (!is_written || renameat(at, part.c_str(), at, name.c_str()) != 0) {
    auto failure = FailIo("write", PathOf(name));
    unlinkat(at, part.c_str(), 0);
    return failure;
  }
  return sync == FileSync::kYes ? Sync() : Expected<void>();
}

Expected<void> Folder::Remove(const std::string& name) const {
  errno = EINVAL;
  if (IsPlain(name) && (unlinkat(file_->descriptor(), name.c_str(), 0) == 0 || errno == ENOENT)) return {};
  return FailIo("remove", PathOf(name));
}

// Uses getdents64(2) instead of opendir(3), which allocates 32 KB at each call, because most folders are empty.
Expected<std::vector<std::string>> Folder::Names() const {
  std::vector<std::string> names;
  // Opens the folder once more, because all users of the shared descriptor also share its read position.
  const HeldFile folder(openat(file_->descriptor(), ".", kOpenFolder));
  if (!folder.is_open()) return FailIo("open", path_);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the kernel fills the part that is used
  alignas(dirent64) std::array<char, 4096> buffer;
  while (true) {
    const ssize_t got = syscall(SYS_getdents64, folder.descriptor(), buffer.data(), buffer.size());
    if (got < 0) return FailIo("read", path_);
    if (got == 0) return names;
    for (ssize_t at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (IsPlain(name) && !name.starts_with(kPartPrefix)) names.emplace_back(name);
    }
  }
}

bool Folder::IsGone() const {
  struct stat status{};
  return fstat(file_->descriptor(), &status) == 0 && status.st_nlink == 0;
}

Expected<void> Folder::Sync() const {
  if (fsync(file_->descriptor()) != 0) return FailIo("sync", path_);
  return {};
}

}  // namespace berth::node
