// SPDX-License-Identifier: Apache-2.0
// Parses CNI_ARGS.
#include "cni/args.h"

#include <optional>

#include "cni/ascii.h"

namespace berth::cni {
namespace {

// The error message lists unknown pairs up to about this length.
constexpr std::size_t kListedBytesMax = 200;

enum class Outcome : std::uint8_t { kTaken, kUnknownKey, kMalformed, kBadValue };

class Parser {
 public:
  Outcome Take(std::string_view pair) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || pair.find('=', equals + 1) != std::string_view::npos) {
      return Outcome::kMalformed;
    }
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    if (key == "IgnoreUnknown") {
      const std::optional<bool> ignore = ParseBool(value);
      if (!ignore) return Outcome::kBadValue;
      ignore_unknown_ = *ignore;
      return Outcome::kTaken;
    }
    if (key == "MAC") return Outcome::kTaken;
    std::string* const field = Field(key);
    if (field == nullptr) return Outcome::kUnknownKey;
    *field = value;
    return Outcome::kTaken;
  }

  [[nodiscard]] bool ignore_unknown() const { return ignore_unknown_; }
  [[nodiscard]] const Args& args() const { return args_; }

 private:
  std::string* Field(std::string_view key) {
    if (key == "K8S_POD_NAMESPACE") return &args_.pod_namespace;
    if (key == "K8S_POD_NAME") return &args_.pod_name;
    if (key == "K8S_POD_UID") return &args_.pod_uid;
    if (key == "K8S_POD_INFRA_CONTAINER_ID") return &args_.sandbox_id;
    if (key == "IP") return &args_.ip;
    return nullptr;
  }

  Args args_;
  bool ignore_unknown_ = false;
};

}  // namespace

Expected<Args> ParseArgs(std::string_view text) {
  if (text.empty()) return Args{};
  Parser parser;
  std::string unknown;
  for (bool more = true; more;) {
    const std::size_t semicolon = text.find(';');
    const std::string_view pair = text.substr(0, semicolon);
    more = semicolon != std::string_view::npos;
    if (more) text.remove_prefix(semicolon + 1);

    const Outcome outcome = parser.Take(pair);
    if (outcome == Outcome::kTaken) continue;
    if (outcome == Outcome::kMalformed) {
      return Fail(ErrorCode::kEnvironment,
                  "CNI_ARGS: invalid pair " + Quoted(pair),
                  "pairs have the form KEY=value and are separated by ;");
    }
    if (outcome == Outcome::kBadValue) {
      return Fail(ErrorCode::kEnvironment,
                  "CNI_ARGS: error parsing value of pair " + Quoted(pair),
                  "IgnoreUnknown must be 1, 0, true or false");
    }
    if (unknown.size() < kListedBytesMax) unknown += (unknown.empty() ? "" : " ") + Quoted(pair);
  }
  if (!unknown.empty() && !parser.ignore_unknown()) {
    return Fail(ErrorCode::kEnvironment,
                "CNI_ARGS: unknown args [" + unknown + "]",
                "remove these arguments, or add IgnoreUnknown=1");
  }
  return parser.args();
}

}  // namespace berth::cni
