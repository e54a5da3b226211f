// SPDX-License-Identifier: Apache-2.0
// Reads IPReservations from JSON.
#include "crds/reservation.h"

#include <nlohmann/json.hpp>

#include "base/timestamp.h"
#include "crds/meta_reader.h"
#include "crds/names.h"
#include "ipam/pool.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

constexpr std::size_t kAddressesMax = 256;
constexpr std::size_t kTimestampLengthMax = 40;

}  // namespace

Expected<Reservation> ParseReservation(const nlohmann::json& object) {
  Problem problem = ProblemOf(kReservationKind, object);
  const FieldReader document(object, problem);
  Reservation reservation;
  reservation.meta = ReadMeta(document);
  document.Require("spec");
  const FieldReader spec = document.Object("spec");
  reservation.space = spec.Has("space") ? spec.String("space", kSpaceNameLengthMax) : std::string(ipam::kDefaultSpace);
  spec.Require("addresses");
  reservation.addresses = spec.ParsedList("addresses", kAddressesMax, kRangeTextMax, ipam::AddressRange::Parse);
  if (reservation.addresses.empty()) spec.Fail("addresses", "must not be empty");
  reservation.expires_ms = spec.Parsed("expires", kTimestampLengthMax, ParseTimestamp);
  if (problem.error) return std::unexpected(*problem.error);
  return reservation;
}

}  // namespace berth::crds
