// SPDX-License-Identifier: Apache-2.0
// IPAllocation: which attachment has which addresses, for people and for Kubernetes' garbage collector.
//
// The controller writes it from the entries of blocks. This file derives the object's name, labels, spec.ips and owner
// from its other parts, so that two writers write the same object.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "crds/object_meta.h"
#include "ipam/address.h"
#include "ipam/entry.h"

namespace berth::crds {

inline constexpr std::size_t kAllocationAddressesMax = 8;

struct AllocatedAddress {
  ipam::Address address;
  std::string pool;
  std::string block;
  friend bool operator==(const AllocatedAddress&, const AllocatedAddress&) = default;
};

struct Allocation {
  ObjectMeta meta;
  std::string pod;
  std::string uid;  // the pod's UID as the runtime passed it
  std::string interface;
  std::string node;
  std::vector<AllocatedAddress> addresses;  // IPv4 first
  // The object as it was read; nullptr: not read yet. Shared, never changed.
  std::shared_ptr<const nlohmann::json> document = nullptr;
};

// "<pod>-<attachment>". The pod's name is shortened so that the result has at most 253 characters and is a valid name.
[[nodiscard]] std::string AllocationName(std::string_view pod, const ipam::Attachment& attachment);

// The attachment at the end of the name; nullopt if the name does not end with one.
[[nodiscard]] std::optional<ipam::Attachment> AttachmentOfName(std::string_view name);

// An address as the value of a label: in IPv6 with "-" for ":". If the value would begin or end with "-",
// AddressLabelValue adds a "0" there, so that the value is still a form of the address: "2001-db8--7", "2001-db8--0".
[[nodiscard]] std::string AddressLabelValue(ipam::Address address);

// Errors: kInvalid, with the namespace, the name and the field.
[[nodiscard]] Expected<Allocation> ParseAllocation(nlohmann::json object);

// The object for a POST: name, namespace, derived labels and spec. If `uid` contains "-", the object names the pod as
// its owner. Every UID of an API object contains "-", but the UID of a static pod does not. Requires: from 1 to
// kAllocationAddressesMax addresses.
[[nodiscard]] nlohmann::json AllocationToJson(const Allocation& allocation);

// The merge patch that changes allocation.document into `allocation`: only the differences, and the resourceVersion.
// Removes no label and no owner. null if nothing differs. Requires: allocation.document and meta.resource_version are
// set; pod, uid, interface and node are unchanged.
[[nodiscard]] nlohmann::json AllocationPatch(const Allocation& allocation);

}  // namespace berth::crds
