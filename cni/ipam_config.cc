// SPDX-License-Identifier: Apache-2.0
// Reads each field of `ipam`, and checks its rules.
#include "cni/ipam_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cni/pool_names.h"
#include "ipam/prefix.h"

namespace berth::cni {
namespace {

constexpr std::size_t kPathBytesMax = 4095;
constexpr std::int64_t kTimeoutSecondsMax = 600;
constexpr std::int64_t kUint32Max = 0xFFFFFFFF;
constexpr std::int64_t kRouteScopeMax = 255;

std::vector<std::string> ParsePools(const AnyCaseReader& ipam) {
  auto pools = PoolNames(ipam.Strings("pools"), "ipam.pools");
  if (pools) return *std::move(pools);
  ipam.Report(pools.error());
  return {};
}

std::string ParsePath(const AnyCaseReader& ipam, std::string_view name, std::string_view otherwise = "") {
  std::string path = ipam.String(name);
  if (path.empty()) return std::string(otherwise);
  const bool plain = std::ranges::none_of(path, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (path.front() != '/' || path.size() > kPathBytesMax || !plain) {
    ipam.Report({.code = ErrorCode::kInvalid,
                 .message = ipam.PathOf(name) + " " + Quoted(path) + " is not an absolute path",
                 .details = "begin the path with /: berth does not know the working directory of the runtime"});
  }
  return path;
}

std::string ParseNodeName(const AnyCaseReader& ipam) {
  std::string name = ipam.String("nodeName");
  if (!name.empty() && !IsObjectName(name, kNodeNameBytesMax)) {
    ipam.Report({.code = ErrorCode::kInvalid,
                 .message = ipam.PathOf("nodeName") + " " + Quoted(name) + " cannot be the name of a node"});
  }
  return name;
}

LogLevel ParseLogLevel(const AnyCaseReader& ipam) {
  constexpr std::array<std::pair<std::string_view, LogLevel>, 4> kLevels = {
      {{"error", LogLevel::kError}, {"warn", LogLevel::kWarn}, {"info", LogLevel::kInfo}, {"debug", LogLevel::kDebug}}};
  const std::string text = ipam.String("logLevel");
  if (text.empty()) return IpamConfig{}.log_level;
  for (const auto& [name, level] : kLevels) {
    if (name == text) return level;
  }
  ipam.Report({.code = ErrorCode::kInvalid,
               .message = ipam.PathOf("logLevel") + " " + Quoted(text) + " is not error, warn, info or debug"});
  return IpamConfig{}.log_level;
}

std::optional<std::uint32_t> ParseAttribute(const AnyCaseReader& route, std::string_view name, std::int64_t max) {
  const std::optional<std::int64_t> value = route.Integer(name, 0, max);
  if (!value) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

ipam::Route ParseRoute(const AnyCaseReader& fields) {
  ipam::Route route;
  const auto destination = ipam::Prefix::Parse(fields.String("dst"));
  if (!destination) fields.Report(destination.error().Within(fields.PathOf("dst")));
  route.destination = destination.value_or(ipam::Prefix());
  route.gateway = fields.Parsed("gw", kUnbounded, ipam::Address::Parse);
  if (route.gateway && route.gateway->family() != route.destination.family()) {
    fields.Report(
        {.code = ErrorCode::kInvalid,
         .message = fields.PathOf("gw") + " " + route.gateway->ToString() + " is of another family than dst"});
  }
  route.mtu = ParseAttribute(fields, "mtu", kUint32Max);
  route.advmss = ParseAttribute(fields, "advmss", kUint32Max);
  route.priority = ParseAttribute(fields, "priority", kUint32Max);
  route.table = ParseAttribute(fields, "table", kUint32Max);
  route.scope = ParseAttribute(fields, "scope", kRouteScopeMax);
  return route;
}

std::optional<std::vector<ipam::Route>> ParseRoutes(const AnyCaseReader& ipam) {
  if (!ipam.Has("routes")) return std::nullopt;
  std::vector<ipam::Route> routes;
  ipam.ForEach("routes", [&](const AnyCaseReader& route) { routes.push_back(ParseRoute(route)); });
  return routes;
}

std::optional<ipam::Dns> ParseDns(const AnyCaseReader& ipam) {
  if (!ipam.Has("dns")) return std::nullopt;
  const AnyCaseReader dns = ipam.Object("dns");
  return ipam::Dns{.nameservers = dns.Strings("nameservers"),
                   .domain = dns.String("domain"),
                   .search = dns.Strings("search"),
                   .options = dns.Strings("options")};
}

}  // namespace

IpamConfig ParseIpamConfig(const AnyCaseReader& ipam, IpamScope scope) {
  IpamConfig config;
  config.kubeconfig = ParsePath(ipam, "kubeconfig");
  config.node_name = ParseNodeName(ipam);
  if (const auto seconds = ipam.Integer("timeoutSeconds", 1, kTimeoutSecondsMax)) {
    config.timeout = std::chrono::seconds(*seconds);
  }
  config.state_dir = ParsePath(ipam, "stateDir", config.state_dir);
  config.agent_socket = ParsePath(ipam, "agentSocket", config.agent_socket);
  config.log_file = ParsePath(ipam, "logFile");
  config.log_level = ParseLogLevel(ipam);
  if (scope == IpamScope::kRelease) return config;

  if (ipam.String("type").empty()) {
    ipam.Report({.code = ErrorCode::kInvalid,
                 .message = "ipam.type is missing",
                 .details = "set ipam.type to the name of the plugin: \"berth\""});
  }
  config.pools = ParsePools(ipam);
  config.routes = ParseRoutes(ipam);
  config.dns = ParseDns(ipam);
  config.resolv_conf = ParsePath(ipam, "resolvConf");
  return config;
}

}  // namespace berth::cni
