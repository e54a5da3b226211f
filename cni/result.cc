// SPDX-License-Identifier: Apache-2.0
// Prints a result in one of three forms: 0.1.0 and 0.2.0; 0.3.0 to 0.4.0 (with `version`); 1.0.0 and 1.1.0.
#include "cni/result.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace berth::cni {
namespace {

using Json = nlohmann::ordered_json;

std::string Cidr(const ResultAddress& address) {
  return address.address.ToString() + "/" + std::to_string(address.prefix_length);
}

Json RouteJson(const ipam::Route& route, Version version) {
  Json object = {{"dst", route.destination.ToString()}};
  if (route.gateway) object["gw"] = route.gateway->ToString();
  if (version < Version::k1_1_0) return object;
  const auto attribute = [&object](const char* name, const std::optional<std::uint32_t>& value) {
    if (value) object[name] = *value;
  };
  attribute("mtu", route.mtu);
  attribute("advmss", route.advmss);
  attribute("priority", route.priority);
  attribute("table", route.table);
  attribute("scope", route.scope);
  return object;
}

Json DnsJson(const ipam::Dns& dns) {
  Json object = Json::object();
  if (!dns.nameservers.empty()) object["nameservers"] = dns.nameservers;
  if (!dns.domain.empty()) object["domain"] = dns.domain;
  if (!dns.search.empty()) object["search"] = dns.search;
  if (!dns.options.empty()) object["options"] = dns.options;
  return object;
}

// The form of 0.1.0 and 0.2.0 has one object for each family. Leaves out routes of a family without an address.
Expected<Json> ByFamily(const Result& result, Version version) {
  Json object = {{"cniVersion", ToString(version)}};
  for (const ResultAddress& address : result.addresses) {
    const bool is_v4 = address.address.family() == ipam::Family::kIPv4;
    Json& slot = object[is_v4 ? "ip4" : "ip6"];
    if (!slot.is_null()) {
      return Fail(ErrorCode::kInvalid,
                  "CNI version " + std::string(ToString(version)) + " does not support more than 1 address per family",
                  "use cniVersion 0.3.0 or later");
    }
    slot["ip"] = Cidr(address);
    if (address.gateway) slot["gateway"] = address.gateway->ToString();
    for (const ipam::Route& route : result.routes) {
      if (route.destination.family() == address.address.family()) slot["routes"].push_back(RouteJson(route, version));
    }
  }
  return object;
}

Json AsList(const Result& result, Version version) {
  Json object = {{"cniVersion", ToString(version)}, {"ips", Json::array()}};
  for (const ResultAddress& address : result.addresses) {
    Json ip = Json::object();
    if (version < Version::k1_0_0) ip["version"] = address.address.family() == ipam::Family::kIPv4 ? "4" : "6";
    ip["address"] = Cidr(address);
    if (address.gateway) ip["gateway"] = address.gateway->ToString();
    object["ips"].push_back(std::move(ip));
  }
  for (const ipam::Route& route : result.routes) object["routes"].push_back(RouteJson(route, version));
  return object;
}

}  // namespace

Expected<std::string> ResultJson(const Result& result, Version version) {
  if (result.addresses.empty()) {
    return Fail(ErrorCode::kInvalid, "a result of CNI version " + std::string(ToString(version)) + " needs an address");
  }
  Expected<Json> object = version < Version::k0_3_0 ? ByFamily(result, version) : AsList(result, version);
  if (!object) return std::unexpected(object.error());
  if (!result.dns.empty()) (*object)["dns"] = DnsJson(result.dns);
  return object->dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth::cni
