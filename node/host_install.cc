// SPDX-License-Identifier: Apache-2.0
// Writes a copy beside the old program, syncs it and renames it; writes the network configuration in place.
#include "node/host_install.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "node/node_directory.h"

namespace berth::node {
namespace {

constexpr mode_t kProgramMode = 0755;
constexpr mode_t kConfigMode = 0644;

const char* RemedyOf(int error) {
  if (error == EROFS || error == ENOENT) return "name the folder that the node's runtime uses, and mount it writable";
  if (error == EACCES) return "let root own the folder on the node (chown root): this process has no CAP_DAC_OVERRIDE";
  return "";
}

std::unexpected<Error> FailIo(const char* what, const std::string& path, int error = errno) {
  return Fail(ErrorCode::kIo, std::string(what) + " \"" + path + "\": " + std::strerror(error), RemedyOf(error));
}

// Reads a file. Errors: kIo, also if `path` is a symbolic link or a folder, or lacks one of the permission bits in
// `rights`.
Expected<std::string> ReadRegular(const std::string& path, mode_t rights) {
  const HeldFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts = {};
  if (!file.is_open() || fstat(file.descriptor(), &facts) != 0) return FailIo("read", path);
  if (!S_ISREG(facts.st_mode) || (facts.st_mode & rights) != rights) return FailIo("read", path, EINVAL);
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  if (pread(file.descriptor(), text.data(), text.size(), 0) != facts.st_size) return FailIo("read", path, EIO);
  return text;
}

// Writes `text` from the start of the file, and truncates the file after it.
bool WriteWhole(const HeldFile& file, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = pwrite(file.descriptor(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno != EINTR) return false;
    done += static_cast<std::size_t>(count > 0 ? count : 0);
  }
  return ftruncate(file.descriptor(), static_cast<off_t>(text.size())) == 0 && fsync(file.descriptor()) == 0;
}

}  // namespace

Expected<bool> InstallProgram(const std::string& program, const std::string& folder,
                              const std::function<Expected<void>()>& may) {
  const auto wanted = ReadRegular(program, 0);
  if (!wanted) return std::unexpected(wanted.error());
  const HeldFile directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Wait while another process installs, such as an init container of an earlier release: the last process wins.
  if (!directory.is_open() || flock(directory.descriptor(), LOCK_EX) != 0) return FailIo("open folder", folder);
  if (may) {
    if (auto allowed = may(); !allowed) return std::unexpected(allowed.error());
  }
  const std::string name = std::filesystem::path(program).filename();
  const std::string path = folder + "/" + name;
  if (const auto there = ReadRegular(path, kProgramMode); there && *there == *wanted) return false;

  // Remove the copy that a killed process may have left: the copy always has the same name.
  const std::string copy = folder + "/." + name + ".new";
  if (unlink(copy.c_str()) != 0 && errno != ENOENT) return FailIo("remove", copy);
  {
    const HeldFile file(open(copy.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kProgramMode));
    if (!file.is_open() || fchmod(file.descriptor(), kProgramMode) != 0 || !WriteWhole(file, *wanted)) {
      auto failure = FailIo("write", copy);
      unlink(copy.c_str());
      return failure;
    }
  }
  if (rename(copy.c_str(), path.c_str()) != 0) {
    auto failure = FailIo("replace", path);
    unlink(copy.c_str());
    return failure;
  }
  if (fsync(directory.descriptor()) != 0) return FailIo("sync folder", folder);
  return true;
}

Expected<bool> InstallConflist(const std::string& from, const std::string& to) {
  // Follow links here: the files of a ConfigMap are symbolic links.
  std::error_code error;
  const std::string source = std::filesystem::canonical(from, error);
  if (error) return FailIo("read", from, error.value());
  const auto wanted = ReadRegular(source, 0);
  if (!wanted) return std::unexpected(wanted.error());
  if (!nlohmann::json::accept(*wanted)) {
    return Fail(ErrorCode::kDecode, "\"" + from + "\" is not JSON", "write a network configuration list into it");
  }
  if (const auto there = ReadRegular(to, 0); there && *there == *wanted) return false;
  const HeldFile file(open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kConfigMode));
  if (!file.is_open() || !WriteWhole(file, *wanted)) return FailIo("write", to);
  return true;
}

}  // namespace berth::node
