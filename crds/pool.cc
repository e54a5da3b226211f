// SPDX-License-Identifier: Apache-2.0
// Reads IPPools from JSON: the spec, and the part of the status that an ADD needs.
#include "crds/pool.h"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "crds/meta_reader.h"
#include "crds/names.h"
#include "crds/status_patch.h"
#include "ipam/entry.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kRangesMax = 64;
constexpr std::size_t kExcludesMax = 256;
constexpr std::size_t kRoutesMax = 64;
constexpr std::size_t kNameserversMax = 16;
constexpr std::size_t kDnsListMax = 32;
constexpr std::size_t kSelectorTermsMax = 32;
constexpr std::size_t kLabelKeyLengthMax = 317;
constexpr std::int64_t kWarmAddressesMax = 4096;
constexpr std::int64_t kBlocksPerNodeMax = 65536;

std::optional<std::uint32_t> Number32(const FieldReader& fields, std::string_view key) {
  const auto number = fields.Integer(key, 0, std::numeric_limits<std::uint32_t>::max());
  if (!number) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::optional<int> PrefixLength(const FieldReader& fields, std::string_view key, ipam::Family family) {
  const auto length = fields.Integer(key, 0, ipam::AddressBits(family));
  if (!length) return std::nullopt;
  return static_cast<int>(*length);
}

ipam::Route ReadRoute(const FieldReader& fields) {
  fields.Require("dst");
  return {.destination = fields.Parsed("dst", kPrefixTextMax, ipam::Prefix::Parse).value_or(ipam::Prefix()),
          .gateway = fields.Parsed("gw", kAddressTextMax, ipam::Address::Parse),
          .mtu = Number32(fields, "mtu"),
          .advmss = Number32(fields, "advmss"),
          .priority = Number32(fields, "priority"),
          .table = Number32(fields, "table"),
          .scope = Number32(fields, "scope")};
}

ipam::Dns ReadDns(const FieldReader& fields) {
  return {.nameservers = fields.Strings("nameservers", kNameserversMax, kAddressTextMax),
          .domain = fields.String("domain", kNameLengthMax),
          .search = fields.Strings("search", kDnsListMax, kNameLengthMax),
          .options = fields.Strings("options", kDnsListMax, kNameLengthMax)};
}

ipam::LabelRequirement ReadRequirement(const FieldReader& fields) {
  using Operator = ipam::LabelRequirement::Operator;
  ipam::LabelRequirement requirement{.key = fields.String("key", kLabelKeyLengthMax),
                                     .op = Operator::kExists,
                                     .values = fields.Strings("values", kSelectorTermsMax, kNameLengthMax)};
  const std::string text = fields.String("operator", kNameLengthMax);
  if (requirement.key.empty()) fields.Fail("key", "is missing");
  if (text == "In") {
    requirement.op = Operator::kIn;
  } else if (text == "NotIn") {
    requirement.op = Operator::kNotIn;
  } else if (text == "DoesNotExist") {
    requirement.op = Operator::kDoesNotExist;
  } else if (text != "Exists") {
    fields.Fail("operator", "must be In, NotIn, Exists or DoesNotExist, is " + Quoted(text));
  }
  const bool wants_values = requirement.op == Operator::kIn || requirement.op == Operator::kNotIn;
  if (wants_values == requirement.values.empty()) {
    fields.Fail("values",
                wants_values ? "must not be empty if the operator is In or NotIn" : "must be empty for " + text);
  }
  return requirement;
}

std::optional<ipam::LabelSelector> ReadSelector(const FieldReader& spec, std::string_view key) {
  if (!spec.Has(key)) return std::nullopt;
  const FieldReader fields = spec.Object(key);
  ipam::LabelSelector selector;
  for (auto& [label, value] : fields.StringMap("matchLabels", kSelectorTermsMax, kLabelKeyLengthMax)) {
    selector.requirements.push_back({.key = label, .op = ipam::LabelRequirement::Operator::kIn, .values = {value}});
  }
  fields.ForEach("matchExpressions", kSelectorTermsMax, [&selector](const FieldReader& requirement) {
    selector.requirements.push_back(ReadRequirement(requirement));
  });
  if (selector.requirements.size() > kSelectorTermsMax) spec.Fail(key, "must have at most 32 terms");
  return selector;
}

ipam::Affinity ReadAffinity(const FieldReader& spec) {
  const std::string text = spec.String("affinity", kNameLengthMax);
  if (text == "Shared") return ipam::Affinity::kShared;
  if (!text.empty() && text != "Node") spec.Fail("affinity", "must be Node or Shared, is " + Quoted(text));
  return ipam::Affinity::kNode;
}

// The fields that say which addresses pods may get.
void ReadAddresses(const FieldReader& spec, ipam::Pool& pool) {
  spec.Require("subnet");
  pool.subnet = spec.Parsed("subnet", kPrefixTextMax, ipam::Prefix::Parse).value_or(ipam::Prefix());
  if (spec.Has("space")) pool.space = spec.String("space", kSpaceNameLengthMax);
  if (pool.space.empty()) spec.Fail("space", "must not be empty");
  pool.ranges = spec.ParsedList("ranges", kRangesMax, kRangeTextMax, ipam::AddressRange::Parse);
  pool.excludes = spec.ParsedList("exclude", kExcludesMax, kRangeTextMax, ipam::AddressRange::Parse);
  pool.block_length = PrefixLength(spec, "blockSize", pool.family());
  if (pool.block_length && *pool.block_length < ipam::AddressBits(pool.family()) - ipam::kBlockBitsMax) {
    spec.Fail("blockSize", "must be at least 24 for IPv4 and 120 for IPv6, is " + std::to_string(*pool.block_length));
  }
  pool.affinity = ReadAffinity(spec);
  pool.gateway = spec.Parsed("gateway", kAddressTextMax, ipam::Address::Parse);
  pool.allow_edge_addresses = spec.Bool("allowEdgeAddresses", false);
}

// The fields that say which pods may get addresses, and by which rules.
void ReadRules(const FieldReader& spec, ipam::Pool& pool) {
  pool.result_length = PrefixLength(spec, "prefixLength", pool.family());
  spec.ForEach("routes", kRoutesMax, [&pool](const FieldReader& route) { pool.routes.push_back(ReadRoute(route)); });
  pool.dns = ReadDns(spec.Object("dns"));
  pool.node_selector = ReadSelector(spec, "nodeSelector");
  pool.namespace_selector = ReadSelector(spec, "namespaceSelector");
  pool.allow_requests = spec.Bool("allowRequests", false);
  pool.allow_annotation = spec.Bool("allowAnnotation", false);
  pool.warm_addresses =
      static_cast<int>(spec.Integer("warmAddresses", 0, kWarmAddressesMax).value_or(pool.warm_addresses));
  pool.max_blocks_per_node = static_cast<int>(spec.Integer("maxBlocksPerNode", 0, kBlocksPerNodeMax).value_or(0));
  pool.cooldown = std::chrono::seconds(spec.Integer("cooldownSeconds", 0, ipam::kCooldownMaxSeconds).value_or(0));
  pool.resource = pool.family() == ipam::Family::kIPv4 ? "ipv4" : "ipv6";
  if (spec.Has("resource")) pool.resource = spec.String("resource", kPoolNameLengthMax);
  pool.disabled = spec.Bool("disabled", false);
}

}  // namespace

Expected<ipam::Pool> ParsePool(const Json& object) {
  Problem problem = ProblemOf(kPoolKind, object);
  const FieldReader document(object, problem);
  const ObjectMeta meta = ReadMeta(document);
  ipam::Pool pool;
  pool.name = meta.name;
  pool.uid = meta.uid;
  pool.resource_version = meta.resource_version;
  pool.deleting = meta.deleting();
  const FieldReader spec = document.Object("spec");
  ReadAddresses(spec, pool);
  ReadRules(spec, pool);
  if (problem.error) return std::unexpected(*problem.error);

  const auto status = ParsePoolStatus(object);
  if (!status) return std::unexpected(status.error());
  if (const Condition* ready = FindCondition(status->conditions, kReadyCondition)) {
    pool.ready = ready->status == "True";
    if (!pool.ready) pool.not_ready_reason = ready->reason;
    if (!pool.ready) pool.not_ready_message = ready->message;
  }
  const Condition* scarce = FindCondition(status->conditions, kScarceCondition);
  pool.is_scarce = scarce != nullptr && scarce->status == "True";
  pool.claimable = status->claimable;
  pool.withheld = status->withheld;
  pool.block_count = static_cast<ipam::Uint128>(status->blocks);
  return pool;
}

}  // namespace berth::crds
