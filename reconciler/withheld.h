// SPDX-License-Identifier: Apache-2.0
// Which addresses of a space nobody hands out: those of reservations that are in force, and gateways.
//
// IPPool.status.withheld carries what concerns the pool, because an ADD reads the pool and nothing else.
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

// What the space's reservations keep, by name of the reservation. Expired ones keep nothing.
[[nodiscard]] std::vector<ReservedRange> ReservedRanges(const World& world, const std::string& space,
                                                        std::int64_t now_ms);

// The earliest time after now at which a reservation expires.
[[nodiscard]] std::optional<std::int64_t> NextExpiry(const World& world, std::int64_t now_ms);

// False if a reservation of the space or one of its accepted pools cannot be read: what it kept may be what it keeps,
// so nothing that is withheld may be given up.
[[nodiscard]] bool MayGiveUp(const World& world, const std::string& space,
                             const std::vector<crds::AcceptedPool>& accepted);

// `reserved` and the gateways of the accepted pools.
[[nodiscard]] ipam::IntervalSet WithheldSet(const World& world, const std::vector<crds::AcceptedPool>& accepted,
                                            const std::vector<ReservedRange>& reserved);

// The set as at most `limit` ranges. Where it has more, neighbours are joined across the smallest gaps: an address too
// many is withheld rather than one too few. Requires: limit >= 2, one for each family.
[[nodiscard]] std::vector<ipam::AddressRange> AtMost(const ipam::IntervalSet& set, std::size_t limit);

}  // namespace berth::reconciler
