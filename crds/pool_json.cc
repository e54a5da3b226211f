// SPDX-License-Identifier: Apache-2.0
// Converts IPPools to JSON.
#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "crds/pool.h"
#include "crds/status_patch.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

void SetIfPresent(Json& object, const char* key, const std::optional<std::uint32_t>& value) {
  if (value) object[key] = *value;
}

template <typename List>
void SetIfAny(Json& object, const char* key, const List& list) {
  if (!list.empty()) object[key] = list;
}

Json RouteToJson(const ipam::Route& route) {
  Json object = {{"dst", route.destination.ToString()}};
  if (route.gateway) object["gw"] = route.gateway->ToString();
  SetIfPresent(object, "mtu", route.mtu);
  SetIfPresent(object, "advmss", route.advmss);
  SetIfPresent(object, "priority", route.priority);
  SetIfPresent(object, "table", route.table);
  SetIfPresent(object, "scope", route.scope);
  return object;
}

Json DnsToJson(const ipam::Dns& dns) {
  Json object = Json::object();
  SetIfAny(object, "nameservers", dns.nameservers);
  SetIfAny(object, "domain", dns.domain);
  SetIfAny(object, "search", dns.search);
  SetIfAny(object, "options", dns.options);
  return object;
}

const char* OperatorName(ipam::LabelRequirement::Operator op) {
  switch (op) {
    case ipam::LabelRequirement::Operator::kIn:
      return "In";
    case ipam::LabelRequirement::Operator::kNotIn:
      return "NotIn";
    case ipam::LabelRequirement::Operator::kExists:
      return "Exists";
    case ipam::LabelRequirement::Operator::kDoesNotExist:
      return "DoesNotExist";
  }
  return "";
}

Json SelectorToJson(const ipam::LabelSelector& selector) {
  Json expressions = Json::array();
  for (const ipam::LabelRequirement& requirement : selector.requirements) {
    Json expression = {{"key", requirement.key}, {"operator", OperatorName(requirement.op)}};
    SetIfAny(expression, "values", requirement.values);
    expressions.push_back(std::move(expression));
  }
  Json object = Json::object();
  SetIfAny(object, "matchExpressions", expressions);
  return object;
}

void SetAddresses(Json& spec, const ipam::Pool& pool) {
  spec["space"] = pool.space;
  spec["subnet"] = pool.subnet.ToString();
  SetIfAny(spec, "ranges", TextsOf(pool.ranges));
  SetIfAny(spec, "exclude", TextsOf(pool.excludes));
  if (pool.block_length) spec["blockSize"] = *pool.block_length;
  spec["affinity"] = pool.affinity == ipam::Affinity::kShared ? "Shared" : "Node";
  if (pool.gateway) spec["gateway"] = pool.gateway->ToString();
  if (pool.result_length) spec["prefixLength"] = *pool.result_length;
  if (pool.allow_edge_addresses) spec["allowEdgeAddresses"] = true;
}

}  // namespace

Json PoolToJson(const ipam::Pool& pool) {
  Json spec = Json::object();
  SetAddresses(spec, pool);
  for (const ipam::Route& route : pool.routes) spec["routes"].push_back(RouteToJson(route));
  if (!pool.dns.empty()) spec["dns"] = DnsToJson(pool.dns);
  if (pool.node_selector) spec["nodeSelector"] = SelectorToJson(*pool.node_selector);
  if (pool.namespace_selector) spec["namespaceSelector"] = SelectorToJson(*pool.namespace_selector);
  if (pool.allow_requests) spec["allowRequests"] = true;
  if (pool.allow_annotation) spec["allowAnnotation"] = true;
  spec["warmAddresses"] = pool.warm_addresses;
  if (pool.max_blocks_per_node != 0) spec["maxBlocksPerNode"] = pool.max_blocks_per_node;
  if (pool.cooldown.count() != 0) spec["cooldownSeconds"] = pool.cooldown.count();
  spec["resource"] = pool.resource;
  if (pool.disabled) spec["disabled"] = true;
  return {
      {"apiVersion", kApiVersion}, {"kind", kPoolKind}, {"metadata", {{"name", pool.name}}}, {"spec", std::move(spec)}};
}

}  // namespace berth::crds
