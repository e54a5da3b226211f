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

// If the error of a DEL contains the first phrase, go-cni takes the DEL for done; without a netns, also if it contains
// the second. multus drops its cache on the second phrase. On the third the kubelet retries after 1 s instead of 10 s.
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
    // Search from the start each time. This is fast, because messages contain at most some hundred bytes of foreign
    // text.
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
