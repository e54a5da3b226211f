// SPDX-License-Identifier: Apache-2.0
// From the API server's JSON to what the world keeps.
//
// An object that cannot be read is kept too, with what is certain about it: it exists, and what it held it still holds.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Errors: kInvalid: not even metadata or, of a block, not even its name can be read.
[[nodiscard]] Expected<SeenPool> ReadPool(nlohmann::json object);
[[nodiscard]] Expected<crds::Space> ReadSpace(nlohmann::json object);
[[nodiscard]] Expected<SeenReservation> ReadReservation(nlohmann::json object);
[[nodiscard]] Expected<SeenBlock> ReadBlock(nlohmann::json object);

// A block as it was written by us.
[[nodiscard]] SeenBlock SeenAs(ipam::Block block);

}  // namespace berth::reconciler
