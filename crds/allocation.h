// SPDX-License-Identifier: Apache-2.0
// IPAllocation: who has which addresses, for people and for Kubernetes' garbage collector.
//
// The controller writes it from the entries of blocks. Everything that can be derived from its parts (name, labels, the
// joined text of the addresses, the owner) is derived here, so that two writers write the same object.
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
  std::string uid;  // as the runtime gave it
  std::string interface;
  std::string node;
  std::vector<AllocatedAddress> addresses;  // IPv4 first
  // The object as it was read; nullptr: never read. Shared, never changed.
  std::shared_ptr<const nlohmann::json> document = nullptr;
};

// "<pod>-<attachment>", the pod's name cut so that at most 253 characters come out. The cut leaves a valid name.
[[nodiscard]] std::string AllocationName(std::string_view pod, const ipam::Attachment& attachment);

// The attachment that a name ends with; nothing if it does not.
[[nodiscard]] std::optional<ipam::Attachment> AttachmentOfName(std::string_view name);

// An address as the value of a label: IPv6 with "-" for ":", a "0" before or behind where it would start or end with
// "-", so that it still reads as the address: "2001-db8--7", "2001-db8--0".
[[nodiscard]] std::string AddressLabelValue(ipam::Address address);

// Errors: kInvalid, naming namespace, object and field.
[[nodiscard]] Expected<Allocation> ParseAllocation(nlohmann::json object);

// For a POST: meta.name, meta.name_space, derived labels; a reference to the pod as owner where `uid` is that
// of an API object (with dashes; a static pod's is not), else none. Requires: it has addresses, and at most
// kAllocationAddressesMax.
[[nodiscard]] nlohmann::json AllocationToJson(const Allocation& allocation);

// The merge patch that makes the object say what `allocation` says: only what differs, and the resourceVersion. Labels
// and owners that are not derived belong to others and are kept. null if nothing differs. Requires: allocation.document
// is set; pod, uid, interface and node are immutable.
[[nodiscard]] nlohmann::json AllocationPatch(const Allocation& allocation);

}  // namespace berth::crds
