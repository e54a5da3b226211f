// SPDX-License-Identifier: Apache-2.0
// Folder: an open folder that processes of a node share, and the files in it. MachineName: a random name of this
// machine, in a file of such a folder.
//
// Root of the host writes into the folder, and an agent's container, which mounts the folder, may change it. Therefore
// Folder opens no symbolic link, neither for the folder itself nor for a file in it, and accepts only plain file names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "node/held_file.h"

namespace berth::node {

enum class FileSync : std::uint8_t {
  kNo,   // the write survives a crash of the process
  kYes,  // the write also survives a crash of the machine
};

enum class IfMissing : std::uint8_t { kMake, kFail };

class Folder {
 public:
  // With kMake: creates `path` and its parent folders if they are missing. Errors: kIo, with the errno of open(2);
  // `path` itself must not be a symbolic link.
  [[nodiscard]] static Expected<Folder> Open(const std::string& path, IfMissing missing = IfMissing::kMake);
  // Opens the folder `name` in this folder, and creates it if it is missing. With kYes: the name survives a crash of
  // the machine, even if another process created the folder. Errors: kIo.
  [[nodiscard]] Expected<Folder> Sub(const std::string& name, FileSync sync = FileSync::kNo) const;

  // Opens a file. Errors: kIo, with the errno of open(2).
  [[nodiscard]] Expected<HeldFile> OpenFile(const std::string& name, int flags) const;
  // The file's content. Nothing, with errno: the file does not exist, cannot be read, or is larger than `bytes_max`.
  static constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;
  [[nodiscard]] std::optional<std::string> Read(const std::string& name, std::size_t bytes_max = kFileBytesMax) const;
  // Replaces the whole file by rename. Errors: kIo: the file is unchanged; or, if only the sync of the folder failed,
  // the old content may come back after a crash of the machine.
  [[nodiscard]] Expected<void> Write(const std::string& name, std::string_view text,
                                     FileSync sync = FileSync::kNo) const;
  // Removes a file. Succeeds if the file does not exist. Errors: kIo.
  [[nodiscard]] Expected<void> Remove(const std::string& name) const;
  // Names of all files, without the temporary files of unfinished writes. Errors: kIo.
  [[nodiscard]] Expected<std::vector<std::string>> Names() const;
  // True if somebody has removed the folder. If so, no other process finds files that this process writes there.
  [[nodiscard]] bool IsGone() const;
  // When Sync returns, the list of the folder's files survives a crash of the machine. Errors: kIo.
  [[nodiscard]] Expected<void> Sync() const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

 private:
  Folder(std::string path, HeldFile file)
      : path_(std::move(path)), file_(std::make_shared<const HeldFile>(std::move(file))) {}

  std::string path_;
  std::shared_ptr<const HeldFile> file_;
};

// `count` random hexadecimal digits, for names that no two processes use. A process ID is not such a name: processes in
// two containers may have the same ID.
[[nodiscard]] std::string RandomDigits(std::size_t count);

// A random name of this machine, eight hexadecimal digits. An agent compares it with the machine in a foreign agent's
// name: its predecessor has the same machine name; an agent of another machine with the same node name has another
// machine name. The first call makes the name and stores it in the file `machine` of the folder `state`, which must
// survive a reboot. Errors: kIo.
[[nodiscard]] Expected<std::string> MachineName(const Folder& state);

// An error kIo for `path`, with the text of errno.
[[nodiscard]] std::unexpected<Error> FailIo(std::string_view what, const std::string& path);

}  // namespace berth::node
