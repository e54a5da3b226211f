// SPDX-License-Identifier: Apache-2.0
// Withheld addresses: the addresses of a space that no pod may get, that is gateways, and the addresses of reservations
// that are in force.
//
// IPPool.status.withheld has the part that concerns the pool, because an ADD reads only the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipam/interval_set.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// The ranges that reservations of the space reserve, by name of the reservation. Expired reservations reserve nothing.
[[nodiscard]] std::vector<ReservedRange> ReservedRanges(const World& world, const std::string& space,
                                                        std::int64_t now_ms);

// The earliest time after `now_ms` at which a reservation expires (UNIX ms).
[[nodiscard]] std::optional<std::int64_t> NextExpiry(const World& world, std::int64_t now_ms);

// False if a reservation of the space or an accepted pool of the space cannot be read. The unreadable object may still
// reserve what it reserved before, so the controller goes on withholding every address that it withholds now.
[[nodiscard]] bool MayStopWithholding(const World& world, const std::string& space,
                                      const std::vector<crds::AcceptedPool>& accepted);

// `reserved` and the gateways of the accepted pools, without IPv4-mapped addresses.
[[nodiscard]] ipam::IntervalSet WithheldSet(const World& world, const std::vector<crds::AcceptedPool>& accepted,
                                            const std::vector<ReservedRange>& reserved);

// The set as at most `limit` ranges. If the set has more ranges, joins ranges with the smallest gaps between them. So
// the result may withhold some more addresses, but never fewer. Requires: limit >= 2, one for each family.
[[nodiscard]] std::vector<ipam::AddressRange> AtMost(const ipam::IntervalSet& set, std::size_t limit);

}  // namespace berth::reconciler
