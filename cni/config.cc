// SPDX-License-Identifier: Apache-2.0
// Makes a checked configuration from the bytes of stdin.
#include "cni/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

#include "cni/config_keys.h"
#include "cni/ipam_config.h"
#include "json/field_reader.h"
#include "json/ordered_tree.h"

namespace berth::cni {
namespace {

// An error message contains at most this many bytes of an annotation's name.
constexpr std::size_t kNameBytesMax = 200;

using Json = nlohmann::ordered_json;

// Parses "1", "1.2" or "1.2.3"; a missing number is 0. For CHECK, GC and STATUS, berth compares these numbers before it
// looks for the version in the list of supported versions, like the Go libraries do.
std::optional<std::array<int, 3>> ParseNumbers(std::string_view text) {
  std::array<int, 3> numbers = {0, 0, 0};
  for (int& number : numbers) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return numbers;
    if (text.front() != '.') return std::nullopt;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

Expected<void> CheckVerbIsDefined(Verb verb, std::string_view text) {
  const bool is_check = verb == Verb::kCheck;
  if (!is_check && verb != Verb::kGc && verb != Verb::kStatus) return {};
  const auto numbers = ParseNumbers(text);
  if (!numbers) return Fail(ErrorCode::kDecode, "cniVersion " + Quoted(text) + " is not a version");
  if (*numbers >= (is_check ? std::array{0, 4, 0} : std::array{1, 1, 0})) return {};
  return Fail(ErrorCode::kIncompatibleVersion,
              "config version does not allow " + std::string(ToString(verb)),
              "config is " + Quoted(text) + ", " + std::string(ToString(verb)) + " exists from " +
                  (is_check ? "0.4.0" : "1.1.0") + " on");
}

Expected<Version> ParseVersion(std::string text, Verb verb) {
  if (text.empty()) text = ToString(Version::k0_1_0);
  if (const auto defined = CheckVerbIsDefined(verb, text); !defined) return std::unexpected(defined.error());
  if (const std::optional<Version> version = FindVersion(text)) return *version;
  return Fail(ErrorCode::kIncompatibleVersion,
              "incompatible CNI versions",
              "config is " + Quoted(text) + ", plugin supports " + SupportedVersions());
}

Expected<void> CheckName(const std::string& name) {
  if (name.empty()) return Fail(ErrorCode::kInvalid, "missing network name", "the configuration needs \"name\"");
  if (IsIdentifier(name)) return {};
  return Fail(ErrorCode::kInvalid, "invalid characters found in network name", Quoted(name));
}

std::map<std::string, std::string> ParseAnnotations(const AnyCaseReader& runtime_config) {
  std::map<std::string, std::string> annotations;
  const AnyCaseReader fields = runtime_config.Object(kPodAnnotationsKey);
  const Json* const all = runtime_config.Find(kPodAnnotationsKey);
  if (all == nullptr) return annotations;
  for (const auto& [name, value] : all->items()) {
    if (!name.starts_with(kAnnotationPrefix)) continue;
    if (const auto* const text = value.get_ptr<const std::string*>()) {
      annotations[name] = *text;
    } else {
      fields.Report({.code = ErrorCode::kDecode,
                     .message = fields.PathOf(std::string_view(name).substr(0, kNameBytesMax)) + " must be a string"});
    }
  }
  return annotations;
}

// Ignores addresses that berth cannot parse: they belong to other plugins, which may write them in other forms.
std::vector<PreviousAddress> ParsePrevious(const AnyCaseReader& top, const NetworkConfig& config) {
  if (!top.Has("prevResult")) {
    top.Report({.code = ErrorCode::kInvalid,
                .message = "Required prevResult missing",
                .details = "CHECK needs the result of the ADD in prevResult"});
  }
  const AnyCaseReader result = top.Object("prevResult");
  if (const std::string version = result.String("cniVersion");
      !version.empty() && version != ToString(config.version)) {
    top.Report({.code = ErrorCode::kIncompatibleVersion,
                .message = "prevResult.cniVersion differs from cniVersion",
                .details = "prevResult is " + Quoted(version) + ", config is " + Quoted(ToString(config.version))});
  }
  std::vector<PreviousAddress> previous;
  result.ForEach("ips", [&previous](const AnyCaseReader& ip) {
    const std::string text = ip.String("address");
    const auto address = ipam::Address::Parse(std::string_view(text).substr(0, text.find('/')));
    const auto gateway = ipam::Address::Parse(ip.String("gateway"));
    if (!address) return;
    previous.push_back({.address = *address, .gateway = gateway ? std::optional(*gateway) : std::nullopt});
  });
  return previous;
}

std::optional<std::vector<ValidAttachment>> ParseValidAttachments(const Json& tree, const AnyCaseReader& top) {
  std::string_view key = kValidAttachmentsKey;
  const Json* list = FindMember(tree, key, Nulls::kPresent);
  if (list == nullptr) {
    key = kAttachmentsOfOldTagKey;
    list = FindMember(tree, key, Nulls::kPresent);
  }
  if (list == nullptr) return std::nullopt;
  std::vector<ValidAttachment> attachments;
  if (list->is_null()) return attachments;  // some runtimes send null for a network without containers
  top.ForEach(key, [&attachments](const AnyCaseReader& entry) {
    ValidAttachment attachment{.container_id = entry.String("containerID"), .ifname = entry.String("ifname")};
    for (const auto& [name, text] :
         {std::pair("containerID", &attachment.container_id), {"ifname", &attachment.ifname}})
      if (text->empty()) entry.Report({.code = ErrorCode::kInvalid, .message = entry.PathOf(name) + " is missing"});
    attachments.push_back(std::move(attachment));
  });
  return attachments;
}

Expected<ConfigTree> ParseMembers(std::string_view bytes, std::span<const std::string_view> wanted) {
  if (bytes.size() > kConfigBytesMax) {
    return Fail(ErrorCode::kDecode, "network configuration on stdin is larger than 64 MiB");
  }
  auto tree = ParseJson(bytes, wanted);
  if (!tree) return std::unexpected(tree.error().Within("network configuration on stdin"));
  return std::make_shared<const Json>(*std::move(tree));
}

// Treat null as an empty object, because Go decodes null as an empty configuration.
Expected<ConfigTree> ObjectOf(const ConfigTree& tree) {
  if (tree->is_object()) return tree;
  if (tree->is_null()) return std::make_shared<const Json>(Json::object());
  return Fail(ErrorCode::kDecode,
              "network configuration on stdin is " + std::string(KindOf(*tree)) + ", it must be an object");
}

void ParseBody(const Json& tree, const AnyCaseReader& top, Verb verb, NetworkConfig& config) {
  const bool releases = verb == Verb::kDel || verb == Verb::kGc;
  if (!releases && !top.Has("ipam")) {
    top.Report({.code = ErrorCode::kInvalid, .message = "IPAM config missing 'ipam' key"});
  }
  config.ipam = ParseIpamConfig(top.Object("ipam"), releases ? IpamScope::kRelease : IpamScope::kEverything);
  if (verb == Verb::kAdd || verb == Verb::kCheck) {
    const AnyCaseReader runtime_config = top.Object("runtimeConfig");
    config.runtime_ips = runtime_config.Strings("ips");
    config.annotations = ParseAnnotations(runtime_config);
    config.args_ips = top.Object("args").Object("cni").Strings("ips");
  }
  if (verb == Verb::kCheck) config.previous = ParsePrevious(top, config);
  if (verb == Verb::kGc) config.valid_attachments = ParseValidAttachments(tree, top);
}

}  // namespace

std::vector<std::string_view> WantedKeys(Verb verb) {
  std::vector<std::string_view> keys = {"cniVersion", "name", "ipam"};
  if (verb == Verb::kAdd || verb == Verb::kCheck) keys.insert(keys.end(), {"runtimeConfig", "args"});
  if (verb == Verb::kCheck) keys.emplace_back("prevResult");
  if (verb == Verb::kGc) keys.insert(keys.end(), {kValidAttachmentsKey, kAttachmentsOfOldTagKey});
  return keys;
}

Expected<ConfigTree> ParseConfigTree(std::string_view bytes, Verb verb) {
  return ParseMembers(bytes, WantedKeys(verb));
}

Expected<NetworkConfig> ParseConfig(const ConfigTree& tree, Verb verb) {
  const Expected<ConfigTree> object = ObjectOf(tree);
  if (!object) return std::unexpected(object.error());

  Problem problem;
  const AnyCaseReader top(**object, problem);
  const std::string version_text = top.String("cniVersion");
  NetworkConfig config;
  config.name = top.String("name");
  if (problem.error) return std::unexpected(*problem.error);
  if (const auto good = CheckName(config.name); !good) return std::unexpected(good.error());
  const Expected<Version> version = ParseVersion(version_text, verb);
  if (!version) return std::unexpected(version.error());
  config.version = *version;

  ParseBody(**object, top, verb, config);
  if (problem.error) return std::unexpected(*problem.error);
  return config;
}

Expected<NetworkConfig> ParseConfig(std::string_view bytes, Verb verb) {
  const Expected<ConfigTree> tree = ParseConfigTree(bytes, verb);
  return tree ? ParseConfig(*tree, verb) : std::unexpected(tree.error());
}

Version VersionForErrors(const ConfigTree& tree) {
  Problem problem;
  const std::string text = AnyCaseReader(*tree, problem).String("cniVersion");
  if (problem.error && !tree->is_null()) return kNewestVersion;
  return FindVersion(text.empty() ? ToString(Version::k0_1_0) : text).value_or(kNewestVersion);
}

Version VersionForErrors(std::string_view bytes) {
  constexpr std::array<std::string_view, 1> kWanted = {"cniVersion"};
  const Expected<ConfigTree> tree = ParseMembers(bytes, kWanted);
  return tree ? VersionForErrors(*tree) : kNewestVersion;
}

}  // namespace berth::cni
