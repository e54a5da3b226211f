// SPDX-License-Identifier: Apache-2.0
// Counts lines by their text: parsing each line as JSON would take longer than the requests took.
#include "bench/audit_log.h"

#include <fstream>

namespace berth::bench {

Expected<std::uint64_t> AuditLog::End() const {
  if (path_.empty()) return 0;
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  if (!file) return Fail(ErrorCode::kIo, "cannot open the audit log " + path_, "start the cluster with --audit");
  return static_cast<std::uint64_t>(file.tellg());
}

Expected<std::uint64_t> AuditLog::CountSince(std::uint64_t begin, std::string_view user_agent) const {
  if (path_.empty()) return 0;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return Fail(ErrorCode::kIo, "cannot open the audit log " + path_, "start the cluster with --audit");
  file.seekg(static_cast<std::streamoff>(begin));
  const std::string wanted = "\"userAgent\":\"" + std::string(user_agent);
  std::uint64_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find(wanted) != std::string::npos && line.find("\"verb\":\"watch\"") == std::string::npos) ++count;
  }
  return count;
}

}  // namespace berth::bench
