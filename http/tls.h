// SPDX-License-Identifier: Apache-2.0
// Tls: a server's TLS context, from files that other programs may replace while the server runs.
#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>
#include <sys/types.h>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "http/http_server.h"

namespace berth::http {

class Tls {
 public:
  explicit Tls(HttpTlsFiles files) : files_(std::move(files)) {}

  // Errors: kInvalid, with the file.
  [[nodiscard]] Expected<void> Load();
  // The context of the present files. If the present files are unusable, returns the previous context: another program
  // may be replacing the files one after the other.
  [[nodiscard]] const std::shared_ptr<boost::asio::ssl::context>& Current();

 private:
  // Inode, time of the last change, and size of each file.
  using Stamps = std::array<std::tuple<ino_t, time_t, long, off_t>, 3>;
  [[nodiscard]] Stamps StampsNow() const;

  const HttpTlsFiles files_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  Stamps stamps_;
  std::string failure_;  // error of the last load; empty: the load succeeded
};

}  // namespace berth::http
