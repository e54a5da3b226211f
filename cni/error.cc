// SPDX-License-Identifier: Apache-2.0
// Makes the error object, and rewords the phrases that it must not contain.
#include "cni/error.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "base/ascii.h"

namespace berth::cni {
namespace {

struct Rewording {
  std::string_view phrase;  // lower case
  std::string_view instead;
};

// go-cni treats a failed DEL as done if the error contains the first phrase or, if the DEL has no netns, the second
// phrase. multus drops its cache if an error contains the second phrase. The kubelet retries after 1 s instead of 10 s
// if an error contains the third phrase.
constexpr std::array kRewordings = {
    Rewording{"not found", "does not exist"},
    Rewording{"no such file or directory", "does not exist"},
    Rewording{"network is not ready", "network cannot be used yet"},
};

std::size_t FindAnyCase(std::string_view text, std::string_view phrase) {
  const auto hit = std::search(
      text.begin(), text.end(), phrase.begin(), phrase.end(), [](char a, char b) { return LowerAscii(a) == b; });
  return hit == text.end() ? std::string_view::npos : static_cast<std::size_t>(hit - text.begin());
}

}  // namespace

std::string WithoutTriggerPhrases(std::string_view text) {
  std::string clean(text);
  for (const Rewording& rewording : kRewordings) {
    // The search restarts after each replacement. This is fast, because messages are short (usually a few hundred
    // bytes).
    for (std::size_t at = FindAnyCase(clean, rewording.phrase); at != std::string::npos;
         at = FindAnyCase(clean, rewording.phrase)) {
      clean.replace(at, rewording.phrase.size(), rewording.instead);
    }
  }
  return clean;
}

std::string ErrorJson(const Error& error, Version version) {
  nlohmann::ordered_json object = {
      {"cniVersion", ToString(version)}, {"code", CniCode(error.code)}, {"msg", WithoutTriggerPhrases(error.message)}};
  if (!error.details.empty()) object["details"] = WithoutTriggerPhrases(error.details);
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace berth::cni
