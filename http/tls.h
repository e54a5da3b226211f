// SPDX-License-Identifier: Apache-2.0
// Tls: the TLS context of a server, from files that may be replaced while it runs.
#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>

#include "base/error.h"
#include "http/http_server.h"

namespace berth::http {

class Tls {
 public:
  explicit Tls(HttpTlsFiles files) : files_(std::move(files)) {}

  // Errors: kInvalid, with the file.
  [[nodiscard]] Expected<void> Load();
  // As the files are now. If they are of no use, as they were: they may be replaced one after the other.
  [[nodiscard]] const std::shared_ptr<boost::asio::ssl::context>& Current();

 private:
  // Tells one state of a file from the next; a Secret's files are replaced as a whole.
  struct FileStamp {
    ino_t inode = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    off_t bytes = 0;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
  };
  using Stamps = std::array<FileStamp, 3>;
  static FileStamp StampOf(const std::string& path);
  [[nodiscard]] Stamps StampsNow() const;

  const HttpTlsFiles files_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  Stamps stamps_;
  std::string failure_;  // of the last load; empty: it succeeded
};

}  // namespace berth::http
