// SPDX-License-Identifier: Apache-2.0
// Converts IPAllocations from and to JSON.
#include "crds/allocation.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "crds/merge_patch.h"
#include "crds/meta_reader.h"
#include "crds/names.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kInterfaceLengthMax = 15;
constexpr std::size_t kLabelValueMax = 63;
constexpr std::size_t kAttachmentLength = 29;  // 12 digits, "-", 16 digits

bool IsHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

AllocatedAddress ReadAddress(const FieldReader& fields) {
  for (const std::string_view key : {"address", "pool", "block"}) fields.Require(key);
  return {.address = fields.Parsed("address", kAddressTextMax, ipam::Address::Parse).value_or(ipam::Address()),
          .pool = fields.String("pool", kPoolNameLengthMax),
          .block = fields.String("block", kBlockNameLengthMax)};
}

Json SpecOf(const Allocation& allocation) {
  Json addresses = Json::array();
  std::string ips;
  for (const AllocatedAddress& held : allocation.addresses) {
    addresses.push_back({{"address", held.address.ToString()}, {"pool", held.pool}, {"block", held.block}});
    ips += (ips.empty() ? "" : ",") + held.address.ToString();
  }
  return {{"pod", allocation.pod},
          {"uid", allocation.uid},
          {"interface", allocation.interface},
          {"node", allocation.node},
          {"addresses", std::move(addresses)},
          {"ips", std::move(ips)}};
}

// A node's name may be longer than a label's value. Then the IPAllocation has no node label, and people select by
// spec.node.
Json WithLabels(const Allocation& allocation, Json labels) {
  if (!labels.is_object()) labels = Json::object();
  for (const std::string_view label : {kNodeLabel,
                                       kIPv4AddressLabel,
                                       kIPv4PoolLabel,
                                       kIPv4BlockLabel,
                                       kIPv6AddressLabel,
                                       kIPv6PoolLabel,
                                       kIPv6BlockLabel}) {
    labels.erase(std::string(label));
  }
  if (allocation.node.size() <= kLabelValueMax) labels[std::string(kNodeLabel)] = allocation.node;
  for (const AllocatedAddress& held : allocation.addresses) {
    const bool ipv4 = held.address.family() == ipam::Family::kIPv4;
    labels[std::string(ipv4 ? kIPv4AddressLabel : kIPv6AddressLabel)] = AddressLabelValue(held.address);
    labels[std::string(ipv4 ? kIPv4PoolLabel : kIPv6PoolLabel)] = held.pool;
    labels[std::string(ipv4 ? kIPv4BlockLabel : kIPv6BlockLabel)] = held.block;
  }
  return labels;
}

}  // namespace

std::string AllocationName(std::string_view pod, const ipam::Attachment& attachment) {
  BERTH_CHECK(attachment.size() == kAttachmentLength);
  std::string name(pod.substr(0, kNameLengthMax - kAttachmentLength - 1));
  // A label of a DNS name may not begin with "-": remove "." from the end of the pod's part, and also "-".
  while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
  return name + '-' + attachment;
}

std::optional<ipam::Attachment> AttachmentOfName(std::string_view name) {
  if (name.size() < kAttachmentLength + 2) return std::nullopt;
  const std::string_view attachment = name.substr(name.size() - kAttachmentLength);
  const bool dashes =
      name[name.size() - kAttachmentLength - 1] == '-' && attachment[ipam::kAttachmentNetworkLength] == '-';
  if (!dashes || !IsHex(attachment.substr(0, ipam::kAttachmentNetworkLength)) ||
      !IsHex(attachment.substr(ipam::kAttachmentNetworkLength + 1))) {
    return std::nullopt;
  }
  return ipam::Attachment(attachment);
}

std::string AddressLabelValue(ipam::Address address) {
  std::string value = address.ToString();
  std::ranges::replace(value, ':', '-');
  if (value.starts_with('-')) value.insert(value.begin(), '0');
  if (value.ends_with('-')) value += '0';
  return value;
}

Expected<Allocation> ParseAllocation(Json object) {
  Problem problem = ProblemOf(kAllocationKind, object);
  const FieldReader document(object, problem);
  Allocation allocation;
  allocation.meta = ReadMeta(document);
  if (!allocation.meta.name_space.empty() && !problem.error) {
    problem.object = std::string(kAllocationKind) + ' ' + allocation.meta.name_space + '/' + allocation.meta.name;
  }
  document.Require("spec");
  const FieldReader spec = document.Object("spec");
  for (const std::string_view key : {"pod", "uid", "interface", "node", "addresses"}) spec.Require(key);
  allocation.pod = spec.String("pod", kNameLengthMax);
  allocation.uid = spec.String("uid", kUidLengthMax);
  allocation.interface = spec.String("interface", kInterfaceLengthMax);
  allocation.node = spec.String("node", kNameLengthMax);
  spec.ForEach("addresses", kAllocationAddressesMax, [&allocation](const FieldReader& address) {
    allocation.addresses.push_back(ReadAddress(address));
  });
  if (problem.error) return std::unexpected(*problem.error);
  allocation.document = std::make_shared<const Json>(std::move(object));
  return allocation;
}

Json AllocationToJson(const Allocation& allocation) {
  BERTH_CHECK(!allocation.addresses.empty() && allocation.addresses.size() <= kAllocationAddressesMax);
  Json metadata = {{"name", allocation.meta.name},
                   {"namespace", allocation.meta.name_space},
                   {"labels", WithLabels(allocation, Json::object())}};
  if (allocation.uid.contains('-')) {
    metadata["ownerReferences"] =
        Json::array({{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", allocation.pod}, {"uid", allocation.uid}}});
  }
  return {{"apiVersion", kApiVersion},
          {"kind", kAllocationKind},
          {"metadata", std::move(metadata)},
          {"spec", SpecOf(allocation)}};
}

Json AllocationPatch(const Allocation& allocation) {
  BERTH_CHECK(allocation.document != nullptr && !allocation.meta.resource_version.empty());
  const Json& before = *allocation.document;
  Json after = before;
  Json& labels = after["metadata"]["labels"];
  labels = WithLabels(allocation, std::move(labels));
  const Json spec = SpecOf(allocation);
  after["spec"].update(spec);
  after["spec"]["addresses"] =
      MergeElements(before["spec"]["addresses"], spec["addresses"].get<std::vector<Json>>(), {"address"});
  Json patch = DiffMergePatch(before, after);
  if (patch.empty()) return nullptr;
  patch["metadata"]["resourceVersion"] = allocation.meta.resource_version;
  return patch;
}

}  // namespace berth::crds
