// SPDX-License-Identifier: Apache-2.0
// Checks which variables a verb requires, and the values of the variables.
#include "cni/environment.h"

#include <algorithm>
#include <array>

#include "cni/ascii.h"

namespace berth::cni {
namespace {

// Linux: IFNAMSIZ without the terminating zero.
constexpr std::size_t kInterfaceNameBytesMax = 15;

constexpr std::array kVerbs = {Verb::kAdd, Verb::kDel, Verb::kCheck, Verb::kGc, Verb::kStatus, Verb::kVersion};

bool IsAlphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// The first code point of `text`, and its length in bytes. A byte of a malformed sequence counts as 0xFFFD: the kernel
// accepts any bytes in interface names, and such a byte is not white space.
struct CodePoint {
  std::uint32_t value = 0xFFFD;
  std::size_t bytes = 1;
};

CodePoint FrontCodePoint(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {.value = lead, .bytes = 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (bytes == 0 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) return {};
    value = value << 6U | (next & 0x3FU);
  }
  return {.value = value, .bytes = bytes};
}

// Unicode's property White_Space.
bool IsWhiteSpace(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

Expected<Verb> ParseVerb(std::string_view text) {
  if (text.empty()) return Verb::kAbout;
  const auto* const verb = std::ranges::find_if(kVerbs, [&](Verb v) { return ToString(v) == text; });
  if (verb == kVerbs.end()) {
    return Fail(ErrorCode::kEnvironment,
                "unknown CNI_COMMAND: " + Quoted(text),
                "verbs are upper case: ADD, DEL, CHECK, GC, STATUS, VERSION");
  }
  return *verb;
}

bool NeedsContainer(Verb verb) { return verb == Verb::kAdd || verb == Verb::kDel || verb == Verb::kCheck; }

Expected<void> CheckContainerId(std::string_view id) {
  if (IsIdentifier(id)) return {};
  return Fail(ErrorCode::kEnvironment, "invalid characters in CNI_CONTAINERID", std::string(id));
}

Expected<void> CheckInterfaceName(std::string_view name) {
  const std::string_view fault = InterfaceNameFault(name);
  if (fault.empty()) return {};
  return Fail(ErrorCode::kEnvironment, "CNI_IFNAME: " + std::string(fault), Quoted(name));
}

// Checks the variables one after the other. A malformed value ends the check at once. Collects all missing variables
// for one message.
Expected<void> CheckVariables(const Environment& environment, std::string_view path) {
  std::string missing;
  const auto require = [&missing](std::string_view name, std::string_view value) {
    if (value.empty()) missing += (missing.empty() ? "" : ",") + std::string(name);
    return !value.empty();
  };
  if (NeedsContainer(environment.verb)) {
    if (require("CNI_CONTAINERID", environment.container_id)) {
      if (auto good = CheckContainerId(environment.container_id); !good) return good;
    }
    if (environment.verb != Verb::kDel) require("CNI_NETNS", environment.netns);
    if (require("CNI_IFNAME", environment.ifname)) {
      if (auto good = CheckInterfaceName(environment.ifname); !good) return good;
    }
  }
  require("CNI_PATH", path);
  if (missing.empty()) return {};
  return Fail(ErrorCode::kEnvironment, "required env variables [" + missing + "] missing");
}

}  // namespace

std::string_view ToString(Verb verb) {
  switch (verb) {
    case Verb::kAbout:
      return "";
    case Verb::kAdd:
      return "ADD";
    case Verb::kDel:
      return "DEL";
    case Verb::kCheck:
      return "CHECK";
    case Verb::kGc:
      return "GC";
    case Verb::kStatus:
      return "STATUS";
    case Verb::kVersion:
      return "VERSION";
  }
  return "";
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && IsAlphanumeric(text[0]) &&
         std::ranges::all_of(text, [](char c) { return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

std::string_view InterfaceNameFault(std::string_view name) {
  if (name.empty()) return "interface name is empty";
  if (name.size() > kInterfaceNameBytesMax) return "interface name is too long, at most 15 bytes";
  if (name == "." || name == "..") return "interface name is . or ..";
  while (!name.empty()) {
    const CodePoint c = FrontCodePoint(name);
    if (c.value == '/' || c.value == ':' || IsWhiteSpace(c.value)) {
      return "interface name contains / or : or white space";
    }
    name.remove_prefix(c.bytes);
  }
  return {};
}

Expected<Environment> ParseEnvironment(const ReadVariable& read) {
  const auto value = [&read](const char* name) {
    const char* const text = read(name);
    return std::string(text == nullptr ? "" : text);
  };
  const Expected<Verb> verb = ParseVerb(value("CNI_COMMAND"));
  if (!verb) return std::unexpected(verb.error());
  Environment environment;
  environment.verb = *verb;
  if (*verb == Verb::kAbout || *verb == Verb::kVersion) return environment;
  if (NeedsContainer(*verb)) {
    environment.container_id = value("CNI_CONTAINERID");
    environment.netns = value("CNI_NETNS");
    environment.ifname = value("CNI_IFNAME");
    environment.args = value("CNI_ARGS");
    environment.netns_override = ParseBool(value("CNI_NETNS_OVERRIDE")).value_or(false);
  }
  if (const auto good = CheckVariables(environment, value("CNI_PATH")); !good) return std::unexpected(good.error());
  return environment;
}

}  // namespace berth::cni
