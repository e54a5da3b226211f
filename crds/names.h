// SPDX-License-Identifier: Apache-2.0
// Names of the API: group, kinds, where collections live, finalizers, labels, annotations. The YAML files beside this
// one define the kinds; names_test.cc holds the two together.
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

// Collections. An object's path is its collection's, "/" and its name, percent-encoded; "/status" behind it where the
// kind has a status subresource (pools and spaces).
inline constexpr std::string_view kPoolsPath = "/apis/ipam.berth.dev/v1alpha1/ippools";
inline constexpr std::string_view kSpacesPath = "/apis/ipam.berth.dev/v1alpha1/ipspaces";
inline constexpr std::string_view kBlocksPath = "/apis/ipam.berth.dev/v1alpha1/ipblocks";
inline constexpr std::string_view kReservationsPath = "/apis/ipam.berth.dev/v1alpha1/ipreservations";
// Of all namespaces. One namespace's: "/apis/ipam.berth.dev/v1alpha1/namespaces/<namespace>/ipallocations".
inline constexpr std::string_view kAllocationsPath = "/apis/ipam.berth.dev/v1alpha1/ipallocations";
inline constexpr std::string_view kNamespacesPath = "/apis/ipam.berth.dev/v1alpha1/namespaces";
inline constexpr std::string_view kAllocationsResource = "ipallocations";

// Field selectors, followed by "=<value>".
inline constexpr std::string_view kBlockNodeField = "spec.node";
inline constexpr std::string_view kBlockPoolField = "spec.pool";
inline constexpr std::string_view kBlockSpaceField = "spec.space";

// On every IPPool that was accepted: it goes when no block of the pool is left. The blocks' own is
// ipam::kBlockFinalizer.
inline constexpr std::string_view kPoolFinalizer = "ipam.berth.dev/drain";

// On IPAllocations, so that "kubectl get ipallocations -A -l ipam.berth.dev/ipv4=10.55.0.7" finds a holder.
inline constexpr std::string_view kNodeLabel = "ipam.berth.dev/node";
inline constexpr std::string_view kIPv4AddressLabel = "ipam.berth.dev/ipv4";
inline constexpr std::string_view kIPv6AddressLabel = "ipam.berth.dev/ipv6";
inline constexpr std::string_view kIPv4PoolLabel = "ipam.berth.dev/ipv4-pool";
inline constexpr std::string_view kIPv6PoolLabel = "ipam.berth.dev/ipv6-pool";
inline constexpr std::string_view kIPv4BlockLabel = "ipam.berth.dev/ipv4-block";
inline constexpr std::string_view kIPv6BlockLabel = "ipam.berth.dev/ipv6-block";

inline constexpr std::string_view kReadyCondition = "Ready";
inline constexpr std::string_view kExhaustedCondition = "Exhausted";
// True: fewer blocks are left than nodes without one; empty ones are given back, and nobody claims ahead.
inline constexpr std::string_view kScarceCondition = "Scarce";

// Limits of the schemas that programs must keep too.
inline constexpr std::size_t kNameLengthMax = 253;
inline constexpr std::size_t kPoolNameLengthMax = 63;
inline constexpr std::size_t kSpaceNameLengthMax = 19;
inline constexpr std::size_t kBlockNameLengthMax = 63;  // follows from the space's and the longest CIDR
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
