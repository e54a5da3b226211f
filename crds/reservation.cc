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
constexpr std::size_t kMacLength = 17;
constexpr std::size_t kTimestampLengthMax = 40;

bool IsMac(const std::string& text) {
  if (text.size() != kMacLength) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool colon = i % 3 == 2;
    if (colon ? c != ':' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

Holder ReadHolder(const FieldReader& spec) {
  if (!spec.Has("holder")) return NoHolder{};
  const FieldReader fields = spec.Object("holder");
  const std::string name_space = fields.String("namespace", kPoolNameLengthMax);
  const std::string pod = fields.String("pod", kNameLengthMax);
  const std::string stateful_set = fields.String("statefulSet", kNameLengthMax);
  const std::string mac = fields.String("mac", kMacLength);
  // Refuse every unclear holder: a wrong guess could give the address to another pod.
  if (int{!pod.empty()} + int{!stateful_set.empty()} + int{!mac.empty()} != 1) {
    fields.Fail("", "must have exactly one of pod, statefulSet and mac");
  } else if (name_space.empty() == mac.empty()) {
    fields.Fail("namespace", "must be given with pod or statefulSet, and left out with mac");
  } else if (!mac.empty() && !IsMac(mac)) {
    fields.Fail("mac", "must be six pairs of hexadecimal digits in lower case, is " + Quoted(mac));
  }
  if (!pod.empty()) return PodHolder{.name_space = name_space, .pod = pod};
  if (!stateful_set.empty()) return StatefulSetHolder{.name_space = name_space, .stateful_set = stateful_set};
  return MacHolder{.mac = mac};
}

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
  reservation.holder = ReadHolder(spec);
  reservation.expires_ms = spec.Parsed("expires", kTimestampLengthMax, ParseTimestamp);
  if (problem.error) return std::unexpected(*problem.error);
  return reservation;
}

}  // namespace berth::crds
