// SPDX-License-Identifier: Apache-2.0
// Names of the API: group, kinds, paths of collections, finalizers, labels, annotations. The YAML files in this folder
// define the kinds; schema_test.cc checks that both have the same names and limits.
#pragma once

#include <string_view>

namespace berth::crds {

inline constexpr std::string_view kGroup = "ipam.berth.dev";
inline constexpr std::string_view kApiVersion = "ipam.berth.dev/v1alpha1";

inline constexpr std::string_view kPoolKind = "IPPool";
inline constexpr std::string_view kSpaceKind = "IPSpace";
inline constexpr std::string_view kBlockKind = "IPBlock";
inline constexpr std::string_view kAllocationKind = "IPAllocation";
inline constexpr std::string_view kReservationKind = "IPReservation";

// Collections. The path of an object is the collection's path, "/" and the percent-encoded name. For pools and spaces,
// "/status" is appended for the status subresource.
inline constexpr std::string_view kPoolsPath = "/apis/ipam.berth.dev/v1alpha1/ippools";
inline constexpr std::string_view kSpacesPath = "/apis/ipam.berth.dev/v1alpha1/ipspaces";
inline constexpr std::string_view kBlocksPath = "/apis/ipam.berth.dev/v1alpha1/ipblocks";
inline constexpr std::string_view kReservationsPath = "/apis/ipam.berth.dev/v1alpha1/ipreservations";
// All namespaces. For one namespace: "/apis/ipam.berth.dev/v1alpha1/namespaces/<namespace>/ipallocations".
inline constexpr std::string_view kAllocationsPath = "/apis/ipam.berth.dev/v1alpha1/ipallocations";
inline constexpr std::string_view kNamespacesPath = "/apis/ipam.berth.dev/v1alpha1/namespaces";
inline constexpr std::string_view kAllocationsResource = "ipallocations";

// The field of a field selector; "=<value>" follows.
inline constexpr std::string_view kBlockNodeField = "spec.node";
inline constexpr std::string_view kBlockPoolField = "spec.pool";
inline constexpr std::string_view kBlockSpaceField = "spec.space";

// The finalizer of accepted IPPools, and of IPSpaces that the controller keeps. When an IPPool is being deleted and no
// block of it is left, the controller removes the finalizer. It removes the finalizer of an IPSpace when no pool and no
// block names the space any more. The finalizer of blocks is ipam::kBlockFinalizer.
inline constexpr std::string_view kPoolFinalizer = "ipam.berth.dev/drain";

// Labels of IPAllocations, for example for "kubectl get ipallocations -A -l ipam.berth.dev/ipv4=10.55.0.7".
inline constexpr std::string_view kNodeLabel = "ipam.berth.dev/node";
inline constexpr std::string_view kIPv4AddressLabel = "ipam.berth.dev/ipv4";
inline constexpr std::string_view kIPv6AddressLabel = "ipam.berth.dev/ipv6";
inline constexpr std::string_view kIPv4PoolLabel = "ipam.berth.dev/ipv4-pool";
inline constexpr std::string_view kIPv6PoolLabel = "ipam.berth.dev/ipv6-pool";
inline constexpr std::string_view kIPv4BlockLabel = "ipam.berth.dev/ipv4-block";
inline constexpr std::string_view kIPv6BlockLabel = "ipam.berth.dev/ipv6-block";

inline constexpr std::string_view kReadyCondition = "Ready";
inline constexpr std::string_view kExhaustedCondition = "Exhausted";
// True: more nodes need a block of the pool than the pool has unclaimed blocks. Then the controller deletes empty
// blocks, and no node claims a block in advance.
inline constexpr std::string_view kScarceCondition = "Scarce";

// Limits of the schemas that programs must also keep.
inline constexpr std::size_t kNameLengthMax = 253;
inline constexpr std::size_t kPoolNameLengthMax = 63;
inline constexpr std::size_t kSpaceNameLengthMax = 19;
inline constexpr std::size_t kBlockNameLengthMax = 63;  // follows from the longest space and CIDR
inline constexpr std::size_t kUidLengthMax = 64;
inline constexpr std::size_t kPrefixTextMax = 43;
inline constexpr std::size_t kRangeTextMax = 79;
inline constexpr std::size_t kAddressTextMax = 39;
inline constexpr std::size_t kClaimableMax = 64;
inline constexpr std::size_t kPoolWithheldMax = 512;
inline constexpr std::size_t kSpaceWithheldMax = 4096;
inline constexpr std::size_t kAcceptedMax = 1024;
inline constexpr std::size_t kConditionsMax = 16;

}  // namespace berth::crds
