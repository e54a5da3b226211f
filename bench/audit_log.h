// SPDX-License-Identifier: Apache-2.0
// AuditLog: how many requests a program sent, by the API server's audit log (level Metadata, one line of JSON per
// request).
//
// The API server writes the line before it answers (blocking mode, as e2e/cluster sets it), so each answered request is
// in the log. Watches do not count, because a program opens them once and not for an operation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::bench {

class AuditLog {
 public:
  // Empty path: there is no log, and every count is 0.
  explicit AuditLog(std::string path) : path_(std::move(path)) {}

  // The present end of the log. Errors: kIo.
  [[nodiscard]] Expected<std::uint64_t> End() const;

  // Requests logged after `begin` whose User-Agent begins with `user_agent`. Errors: kIo.
  [[nodiscard]] Expected<std::uint64_t> CountSince(std::uint64_t begin, std::string_view user_agent) const;

 private:
  std::string path_;
};

}  // namespace berth::bench
