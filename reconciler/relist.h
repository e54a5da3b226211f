// SPDX-License-Identifier: Apache-2.0
// Relist: makes sure that the world is no older than now.
//
// Spaces, pools and reservations are listed consistently, then the blocks, by their metadata only: a world of ten
// thousand blocks is some megabytes that way. The spaces come first: a pool that one of them has accepted and that is
// not in the later list is gone. Blocks that the world does not know, and those with reserved addresses
// that it knows in another version, are read. The blocks come last: who claims one reads its pool afterwards, so a
// block that is not in the list will find what was written before.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "k8sclient/api.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Blocks that exist are in the world afterwards, those that do not are not; entries are current where reservations
// meet them. Objects of which not even the name can be read are left out, and logged. Errors: those of lists and reads;
// the world is then as it was, or newer in parts.
[[nodiscard]] Expected<void> Relist(k8sclient::Api& api, World& world, std::int64_t now_ms,
                                    const k8sclient::CallOptions& options);

}  // namespace berth::reconciler
