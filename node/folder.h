// SPDX-License-Identifier: Apache-2.0
// Folder: a folder that processes of a node share, held open, and the files in it.
//
// Others than root may have a hand in it (an agent's container has it mounted), and root of the host writes there: so
// neither it nor what is in it is followed where it is a symbolic link, and only plain names are opened or removed.
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
  kNo,   // a crash of the process loses nothing
  kYes,  // nor does one of the machine
};

enum class IfMissing : std::uint8_t { kMake, kFail };

class Folder {
 public:
  // With kMake: makes it if it is missing, and those above it. Errors: kIo, with errno as open(2) left it: also where
  // `path` itself is a symbolic link.
  [[nodiscard]] static Expected<Folder> Open(const std::string& path, IfMissing missing = IfMissing::kMake);
  // A folder in it, made if it is missing. With kYes that it is there survives the machine when this returns, whoever
  // made it. Errors: kIo.
  [[nodiscard]] Expected<Folder> Sub(const std::string& name, FileSync sync = FileSync::kNo) const;

  // Errors: kIo, with errno as open(2) left it.
  [[nodiscard]] Expected<HeldFile> OpenFile(const std::string& name, int flags) const;
  // Empty, with errno: there is none, or it can't be read, or it is larger than that.
  static constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;
  [[nodiscard]] std::optional<std::string> Read(const std::string& name, std::size_t bytes_max = kFileBytesMax) const;
  // Whole or not at all. Errors: kIo: it is as it was, or, if the folder can't be synced, may be so after a crash.
  [[nodiscard]] Expected<void> Write(const std::string& name, std::string_view text,
                                     FileSync sync = FileSync::kNo) const;
  // Not there: success. Errors: kIo.
  [[nodiscard]] Expected<void> Remove(const std::string& name) const;
  // All but parts of files that were never written to their end. Errors: kIo.
  [[nodiscard]] Expected<std::vector<std::string>> Names() const;
  // Somebody has removed it: what is written there nobody finds.
  [[nodiscard]] bool IsGone() const;
  // Which files are in it survives the machine when this returns. Errors: kIo.
  [[nodiscard]] Expected<void> Sync() const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

 private:
  Folder(std::string path, HeldFile file)
      : path_(std::move(path)), file_(std::make_shared<const HeldFile>(std::move(file))) {}

  std::string path_;
  std::shared_ptr<const HeldFile> file_;
};

// What errno says of `path`.
[[nodiscard]] std::unexpected<Error> FailIo(std::string_view what, const std::string& path);

}  // namespace berth::node
