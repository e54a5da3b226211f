// SPDX-License-Identifier: Apache-2.0
// IPReservation: addresses that pods may not get. People write it, berth only reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "crds/object_meta.h"
#include "ipam/interval_set.h"

namespace berth::crds {

// No pod may get the addresses.
struct NoHolder {
  friend bool operator==(const NoHolder&, const NoHolder&) = default;
};
struct PodHolder {
  std::string name_space;
  std::string pod;
  friend bool operator==(const PodHolder&, const PodHolder&) = default;
};
// Any pod of the StatefulSet.
struct StatefulSetHolder {
  std::string name_space;
  std::string stateful_set;
  friend bool operator==(const StatefulSetHolder&, const StatefulSetHolder&) = default;
};
struct MacHolder {
  std::string mac;  // lower case, with colons
  friend bool operator==(const MacHolder&, const MacHolder&) = default;
};
using Holder = std::variant<NoHolder, PodHolder, StatefulSetHolder, MacHolder>;

struct Reservation {
  ObjectMeta meta;
  std::string space;
  std::vector<ipam::AddressRange> addresses;
  Holder holder;
  std::optional<std::int64_t> expires_ms;  // UNIX time at which the reservation ends
};

// Errors: kInvalid, with reservation and field.
[[nodiscard]] Expected<Reservation> ParseReservation(const nlohmann::json& object);

}  // namespace berth::crds
