// SPDX-License-Identifier: Apache-2.0
// Reads the API server's JSON into what the world keeps.
//
// The world also keeps an object that cannot be read, with the facts that are certain: the object exists, and it still
// holds the addresses that it held before.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Errors: kInvalid: the metadata cannot be read, or the object's name is not the name of a block. If another part
// cannot be read, the result has a `problem`. If this part is a pool's status, the result also has an empty status.
[[nodiscard]] Expected<SeenPool> ReadPool(nlohmann::json object);
[[nodiscard]] Expected<crds::Space> ReadSpace(nlohmann::json object);
[[nodiscard]] Expected<SeenReservation> ReadReservation(nlohmann::json object);
[[nodiscard]] Expected<SeenBlock> ReadBlock(nlohmann::json object);

// A readable block, as the world keeps it.
[[nodiscard]] SeenBlock SeenAs(ipam::Block block);

}  // namespace berth::reconciler
