// SPDX-License-Identifier: Apache-2.0
// IPReservation: addresses that pods may not get. People write it, berth only reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "crds/object_meta.h"
#include "ipam/interval_set.h"

namespace berth::crds {

struct Reservation {
  ObjectMeta meta;
  std::string space;
  std::vector<ipam::AddressRange> addresses;
  std::optional<std::int64_t> expires_ms;  // UNIX time at which the reservation ends
};

// Errors: kInvalid, with reservation and field.
[[nodiscard]] Expected<Reservation> ParseReservation(const nlohmann::json& object);

}  // namespace berth::crds
