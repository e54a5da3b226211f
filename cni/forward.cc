// SPDX-License-Identifier: Apache-2.0
// What of a call is written down for the agent, and how it is read back.
#include "cni/forward.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cni/ascii.h"
#include "cni/config.h"
#include "cni/config_keys.h"
#include "cni/fields.h"
#include "cni/json_value.h"

namespace berth::cni {
namespace {

// A member that is kept, in objects and in lists of them; `inside`: what is kept of its value, empty: all of it.
struct Kept {
  std::string_view name;
  std::span<const Kept> inside = {};
  bool is_prefix = false;  // of names, and then letter case counts
};

constexpr std::array kIps = {Kept{"ips"}};
constexpr std::array kAnnotations = {Kept{.name = kAnnotationPrefix, .inside = {}, .is_prefix = true}};
constexpr std::array kRuntimeConfig = {Kept{"ips"}, Kept{kPodAnnotationsKey, kAnnotations}};
constexpr std::array kArgs = {Kept{"cni", kIps}};
constexpr std::array kPreviousIp = {Kept{"address"}, Kept{"gateway"}};
constexpr std::array kPreviousResult = {Kept{"cniVersion"}, Kept{"ips", kPreviousIp}};
constexpr std::array kAttachment = {Kept{"containerID"}, Kept{"ifname"}};
// Which of these a verb reads is known to the parser (WantedKeys), which has dropped the others.
constexpr std::array kTop = {Kept{"cniVersion"},
                             Kept{"name"},
                             Kept{"ipam"},
                             Kept{"runtimeConfig", kRuntimeConfig},
                             Kept{"args", kArgs},
                             Kept{"prevResult", kPreviousResult},
                             Kept{kValidAttachmentsKey, kAttachment},
                             Kept{kAttachmentsOfOldTagKey, kAttachment}};

// A DEL may wait in a queue, where there is room for bounded ones.
constexpr std::array kIpamOfDel = {Kept{"type"}, Kept{"timeoutSeconds"}};
constexpr std::array kTopOfDel = {Kept{"cniVersion"}, Kept{"name"}, Kept{"ipam", kIpamOfDel}};

const Kept* FindKept(std::span<const Kept> kept, std::string_view name) {
  const auto found = std::ranges::find_if(
      kept, [&](const Kept& k) { return k.is_prefix ? name.starts_with(k.name) : EqualAnyCase(name, k.name); });
  return found == kept.end() ? nullptr : &*found;
}

// Bytes of a resolv.conf that are no text are replaced, as they are when a result is printed; all other text has come
// from a parser.
void AppendText(std::string_view text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Append(const JsonValue& value, std::span<const Kept> kept, std::string& out);

// Members keep their order and their duplicates: both mean something to the reader (json_value.h).
void AppendObject(const JsonValue::Object& object, std::span<const Kept> kept, std::string& out) {
  out += '{';
  bool first = true;
  for (const JsonMember& member : object) {
    const Kept* const found = FindKept(kept, member.name);
    if (found == nullptr && !kept.empty()) continue;
    if (!std::exchange(first, false)) out += ',';
    AppendText(member.name, out);
    out += ':';
    Append(member.value, found == nullptr ? kept : found->inside, out);
  }
  out += '}';
}

void Append(const JsonValue& value, std::span<const Kept> kept, std::string& out) {
  if (const auto* const object = value.As<JsonValue::Object>()) {
    AppendObject(*object, kept, out);
  } else if (const auto* const array = value.As<JsonValue::Array>()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ',';
      Append((*array)[i], kept, out);
    }
    out += ']';
  } else if (const auto* const text = value.As<std::string>()) {
    AppendText(*text, out);
  } else if (const auto* const boolean = value.As<bool>()) {
    out += *boolean ? "true" : "false";
  } else if (const auto* const negative = value.As<std::int64_t>()) {
    out += std::to_string(*negative);
  } else if (const auto* const positive = value.As<std::uint64_t>()) {
    out += std::to_string(*positive);
  } else if (const auto* const fraction = value.As<double>()) {
    out += nlohmann::json(*fraction).dump();
  } else {
    out += "null";
  }
}

JsonValue TextsValue(const std::vector<std::string>& texts) {
  JsonValue::Array array;
  for (const std::string& text : texts) array.push_back({text});
  return {std::move(array)};
}

// Behind what the configuration says: the last duplicate wins.
void ReplaceDns(const ipam::Dns& dns, JsonValue::Object& top) {
  for (JsonMember& member : top) {
    auto* const ipam = std::get_if<JsonValue::Object>(&member.value.value);
    if (ipam == nullptr || !EqualAnyCase(member.name, "ipam")) continue;
    ipam->push_back({.name = "dns",
                     .value = {JsonValue::Object{{.name = "nameservers", .value = TextsValue(dns.nameservers)},
                                                 {.name = "domain", .value = {dns.domain}},
                                                 {.name = "search", .value = TextsValue(dns.search)},
                                                 {.name = "options", .value = TextsValue(dns.options)}}}});
  }
}

// A variable: a string, or {"hex": "..."} where its bytes are no UTF-8. The name of an interface may be any bytes, and
// changed ones would be another attachment.
void AppendVariable(std::string_view name, std::string_view value, std::string& out) {
  AppendText(name, out);
  out += ':';
  try {
    out += nlohmann::json(value).dump();
  } catch (const nlohmann::json::type_error&) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += R"({"hex":")";
    for (const char c : value) {
      out += kDigits[static_cast<unsigned char>(c) >> 4U];
      out += kDigits[static_cast<unsigned char>(c) & 0xFU];
    }
    out += R"("})";
  }
  out += ',';
}

std::optional<std::string> ParseHex(std::string_view digits) {
  std::string bytes;
  if (digits.size() % 2 != 0) return std::nullopt;
  for (; !digits.empty(); digits.remove_prefix(2)) {
    unsigned byte = 0;
    const std::string_view pair = digits.substr(0, 2);
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), byte, 16);
    if (error != std::errc{} || end != pair.data() + pair.size()) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string ParseVariable(const Fields& body, std::string_view name) {
  const JsonValue* const value = body.Find(name);
  std::string text;
  if (value != nullptr && value->As<JsonValue::Object>() != nullptr) {
    const auto bytes = ParseHex(body.Object(name).Text("hex"));
    if (!bytes) body.fault().Report(ErrorCode::kDecode, body.PathOf(name) + ".hex is not a string of bytes in hex");
    text = bytes.value_or("");
  } else {
    text = body.Text(name);
  }
  // No environment can hold one, and what reads environments would stop there.
  if (text.contains('\0')) body.fault().Report(ErrorCode::kDecode, body.PathOf(name) + " holds a NUL byte");
  return text;
}

Expected<Environment> ParseVariables(const std::map<std::string, std::string, std::less<>>& variables) {
  auto environment = ParseEnvironment([&variables](const char* name) {
    const auto found = variables.find(std::string_view(name));
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  if (environment && (environment->verb == Verb::kAbout || environment->verb == Verb::kVersion)) {
    return Fail(ErrorCode::kEnvironment, "command must be ADD, DEL, CHECK, GC or STATUS");
  }
  return environment;
}

}  // namespace

Expected<std::string> MakeForwardedBody(const ForwardedCall& call, const std::optional<ipam::Dns>& dns) {
  auto tree = ParseJson(call.config, WantedKeys(call.environment.verb));
  if (!tree) return std::unexpected(tree.error());
  if (auto* const top = std::get_if<JsonValue::Object>(&tree->value); top != nullptr && dns) ReplaceDns(*dns, *top);
  std::string body = "{";
  // First: see BeginsWithVerb.
  AppendVariable("command", ToString(call.environment.verb), body);
  AppendVariable("containerID", call.environment.container_id, body);
  AppendVariable("ifname", call.environment.ifname, body);
  AppendVariable("netns", call.environment.netns, body);
  AppendVariable("args", call.environment.args, body);
  body += R"("startedBootNanos":)" + std::to_string(call.started_nanos) + R"(,"config":)";
  Append(*tree, call.environment.verb == Verb::kDel ? std::span<const Kept>(kTopOfDel) : kTop, body);
  body += '}';
  if (body.size() > kForwardedBytesMax) {
    return Fail(ErrorCode::kInvalid,
                "the part of stdin and CNI_ARGS that the node agent needs is larger than " +
                    std::to_string(kForwardedBytesMax >> 20U) + " MiB",
                "shorten ipam, runtimeConfig.ips and args.cni.ips in the network configuration");
  }
  return body;
}

bool BeginsWithVerb(std::string_view body, Verb verb) {
  std::string begin = "{";
  AppendVariable("command", ToString(verb), begin);
  return body.starts_with(begin);
}

Expected<ForwardedCall> ParseForwardedCall(std::string_view body) {
  constexpr std::array<std::string_view, 7> kMembers = {
      "command", "containerID", "ifname", "netns", "args", "startedBootNanos", "config"};
  if (body.size() > kForwardedBytesMax) return Fail(ErrorCode::kInvalid, "the body is larger than 4 MiB");
  const auto tree = ParseJson(body, kMembers);
  if (!tree) return std::unexpected(tree.error().Within("body"));
  const auto* const object = tree->As<JsonValue::Object>();
  if (object == nullptr)
    return Fail(ErrorCode::kDecode, "the body is " + std::string(KindOf(*tree)) + ", not an object");

  Fault fault;
  const Fields top(object, "", fault);
  const auto environment = ParseVariables({{"CNI_COMMAND", ParseVariable(top, "command")},
                                           {"CNI_CONTAINERID", ParseVariable(top, "containerID")},
                                           {"CNI_IFNAME", ParseVariable(top, "ifname")},
                                           {"CNI_NETNS", ParseVariable(top, "netns")},
                                           {"CNI_ARGS", ParseVariable(top, "args")},
                                           {"CNI_PATH", "checked by the caller"}});
  const auto started = top.Integer("startedBootNanos", 0, std::numeric_limits<std::int64_t>::max());
  if (!started) fault.Report(ErrorCode::kDecode, "startedBootNanos is missing");
  const JsonValue* const config = top.Find("config");
  if (config == nullptr) fault.Report(ErrorCode::kDecode, "config is missing");
  if (fault.first()) return std::unexpected(*fault.first());
  if (!environment) return std::unexpected(environment.error());

  ForwardedCall call{.environment = *environment, .config = {}, .started_nanos = started.value_or(0)};
  Append(*config, {}, call.config);
  return call;
}

}  // namespace berth::cni
