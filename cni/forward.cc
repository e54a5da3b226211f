// SPDX-License-Identifier: Apache-2.0
// The parts of a call that go to the agent: writing and reading the body.
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

#include "base/ascii.h"
#include "cni/config_keys.h"
#include "json/field_reader.h"
#include "json/ordered_tree.h"

namespace berth::cni {
namespace {

using Json = nlohmann::ordered_json;

// A member that goes to the agent, in an object or in each object of a list. `inside`: the members of its value that go
// to the agent; empty: the whole value.
struct KeptMember {
  std::string_view name;
  std::span<const KeptMember> inside = {};
  bool is_prefix = false;  // `name` is a prefix of names, and its letter case counts
};

constexpr std::array kIps = {KeptMember{"ips"}};
constexpr std::array kAnnotations = {KeptMember{.name = kAnnotationPrefix, .inside = {}, .is_prefix = true}};
constexpr std::array kRuntimeConfig = {KeptMember{"ips"}, KeptMember{kPodAnnotationsKey, kAnnotations}};
constexpr std::array kArgs = {KeptMember{"cni", kIps}};
constexpr std::array kPreviousIp = {KeptMember{"address"}, KeptMember{"gateway"}};
constexpr std::array kPreviousResult = {KeptMember{"cniVersion"}, KeptMember{"ips", kPreviousIp}};
constexpr std::array kAttachment = {KeptMember{"containerID"}, KeptMember{"ifname"}};
// The parser has already dropped the members that the verb does not read (WantedKeys).
constexpr std::array kTop = {KeptMember{"cniVersion"},
                             KeptMember{"name"},
                             KeptMember{"ipam"},
                             KeptMember{"runtimeConfig", kRuntimeConfig},
                             KeptMember{"args", kArgs},
                             KeptMember{"prevResult", kPreviousResult},
                             KeptMember{kValidAttachmentsKey, kAttachment},
                             KeptMember{kAttachmentsOfOldTagKey, kAttachment}};

// `berth` may store the body of a DEL in the queue, which limits its size (node/del_queue.h). So the body has only
// members that a DEL needs.
constexpr std::array kIpamOfDel = {KeptMember{"timeoutSeconds"}};
constexpr std::array kTopOfDel = {KeptMember{"cniVersion"}, KeptMember{"name"}, KeptMember{"ipam", kIpamOfDel}};

const KeptMember* FindKeptMember(std::span<const KeptMember> kept, std::string_view name) {
  const auto found = std::ranges::find_if(
      kept, [&](const KeptMember& k) { return k.is_prefix ? name.starts_with(k.name) : EqualAnyCase(name, k.name); });
  return found == kept.end() ? nullptr : &*found;
}

// Keeps the order of members and duplicate members, because both have a meaning (json/ordered_tree.h).
Json KeepMembers(const Json& value, std::span<const KeptMember> kept) {
  if (kept.empty() || !value.is_structured()) return value;
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(KeepMembers(item, kept));
    return list;
  }
  Json::object_t object;
  object.reserve(value.size());
  for (const auto& [name, member] : value.get_ref<const Json::object_t&>()) {
    if (const KeptMember* const found = FindKeptMember(kept, name))
      object.emplace_back(name, KeepMembers(member, found->inside));
  }
  return object;
}

// The number of values in a tree, as ParseJson counts them.
std::size_t CountValues(const Json& value) {
  std::size_t count = 1;
  if (value.is_structured()) {
    for (const Json& inside : value) count += CountValues(inside);
  }
  return count;
}

// Appends `dns` after the configuration's own `dns`, and so replaces it: the last of duplicate keys counts.
void ReplaceDns(const ipam::Dns& dns, Json& config) {
  if (!config.is_object()) return;
  for (auto& [name, ipam] : config.get_ref<Json::object_t&>()) {
    if (!ipam.is_object() || !EqualAnyCase(name, "ipam")) continue;
    ipam.get_ref<Json::object_t&>().emplace_back("dns",
                                                 Json{{"nameservers", dns.nameservers},
                                                      {"domain", dns.domain},
                                                      {"search", dns.search},
                                                      {"options", dns.options}});
  }
}

// A string, or {"hex": "..."} if the bytes are not UTF-8. An interface name may contain any bytes, and changed bytes
// would give another attachment.
Json VariableValue(const std::string& text) {
  Json value = text;
  try {
    static_cast<void>(value.dump());
  } catch (const Json::type_error&) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    for (const char c : text) {
      hex += kDigits[static_cast<unsigned char>(c) >> 4U];
      hex += kDigits[static_cast<unsigned char>(c) & 0xFU];
    }
    value = {{"hex", hex}};
  }
  return value;
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

std::string ParseVariable(const AnyCaseReader& body, std::string_view name) {
  const Json* const value = body.Find(name);
  std::string text;
  if (value != nullptr && value->is_object()) {
    const auto bytes = ParseHex(body.Object(name).String("hex"));
    if (!bytes) {
      body.Report({.code = ErrorCode::kDecode, .message = body.PathOf(name) + ".hex is not a string of bytes in hex"});
    }
    text = bytes.value_or("");
  } else {
    text = body.String(name);
  }
  // An environment variable cannot contain NUL, and ParseEnvironment would stop reading there.
  if (text.contains('\0')) {
    body.Report({.code = ErrorCode::kDecode, .message = body.PathOf(name) + " holds a NUL byte"});
  }
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
  const bool is_del = call.environment.verb == Verb::kDel;
  Json config = KeepMembers(*call.config, is_del ? std::span<const KeptMember>(kTopOfDel) : kTop);
  if (dns) ReplaceDns(*dns, config);
  const Json object = {{"command", ToString(call.environment.verb)},  // must be first: see BeginsWithVerb
                       {"containerID", VariableValue(call.environment.container_id)},
                       {"ifname", VariableValue(call.environment.ifname)},
                       {"netns", VariableValue(call.environment.netns)},
                       {"args", VariableValue(call.environment.args)},
                       {"startedBootNanos", call.started_nanos},
                       {"config", std::move(config)}};
  // Replace bytes of a resolv.conf that are not UTF-8, like ResultJson does in a printed result.
  std::string body = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  const ForwardedLimits limits = LimitsOf(call.environment.verb);
  if (body.size() > limits.bytes || CountValues(object) > limits.values) {
    return Fail(ErrorCode::kInvalid,
                "the part of stdin and CNI_ARGS that the node agent needs is larger than " +
                    std::to_string(limits.bytes >> 10U) + " KiB, or has more than " + std::to_string(limits.values) +
                    " values",
                "shorten name, ipam, runtimeConfig.ips and args.cni.ips in the network configuration, and the pod's "
                "annotations ipam.berth.dev/...");
  }
  return body;
}

bool BeginsWithVerb(std::string_view body, Verb verb) {
  return body.starts_with(R"({"command":")" + std::string(ToString(verb)) + R"(",)");
}

Expected<ForwardedCall> ParseForwardedCall(std::string_view body) {
  constexpr std::array<std::string_view, 7> kMembers = {
      "command", "containerID", "ifname", "netns", "args", "startedBootNanos", "config"};
  const ForwardedLimits limits = LimitsOf(BeginsWithVerb(body, Verb::kGc) ? Verb::kGc : Verb::kAdd);
  if (body.size() > limits.bytes) {
    return Fail(ErrorCode::kInvalid, "the body is larger than " + std::to_string(limits.bytes >> 10U) + " KiB");
  }
  auto parsed = ParseJson(body, kMembers, limits.values);
  if (!parsed) return std::unexpected(parsed.error().Within("body"));
  const auto tree = std::make_shared<const Json>(*std::move(parsed));
  if (!tree->is_object()) {
    return Fail(ErrorCode::kDecode, "the body is " + std::string(KindOf(*tree)) + ", not an object");
  }

  Problem problem;
  const AnyCaseReader top(*tree, problem);
  const auto environment = ParseVariables({{"CNI_COMMAND", ParseVariable(top, "command")},
                                           {"CNI_CONTAINERID", ParseVariable(top, "containerID")},
                                           {"CNI_IFNAME", ParseVariable(top, "ifname")},
                                           {"CNI_NETNS", ParseVariable(top, "netns")},
                                           {"CNI_ARGS", ParseVariable(top, "args")},
                                           {"CNI_PATH", "checked by the caller"}});
  const auto started = top.Integer("startedBootNanos", 0, std::numeric_limits<std::int64_t>::max());
  if (!started) top.Report({.code = ErrorCode::kDecode, .message = "startedBootNanos is missing"});
  const Json* const config = top.Find("config");
  if (config == nullptr) top.Report({.code = ErrorCode::kDecode, .message = "config is missing"});
  if (problem.error) return std::unexpected(*problem.error);
  if (!environment) return std::unexpected(environment.error());
  return ForwardedCall{
      .environment = *environment, .config = ConfigTree(tree, config), .started_nanos = started.value_or(0)};
}

}  // namespace berth::cni
