// SPDX-License-Identifier: Apache-2.0
// IPReservations: which holders are valid, and which texts are refused.
#include "crds/reservation.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ipam/test_values.h"

namespace berth::crds {
namespace {

using Json = nlohmann::json;

Json ObjectWith(const char* spec) { return {{"metadata", {{"name", "vip"}}}, {"spec", Json::parse(spec)}}; }

struct HolderCase {
  const char* name;
  const char* spec;
  Holder want;
};

class ReservationHolder : public testing::TestWithParam<HolderCase> {};

TEST_P(ReservationHolder, IsRead) {
  const auto reservation = ParseReservation(ObjectWith(GetParam().spec));
  ASSERT_TRUE(reservation.has_value()) << reservation.error().message;
  EXPECT_EQ(reservation->holder, GetParam().want);
}

const HolderCase kHolders[] = {
    {"Nobody", R"({"addresses": ["10.55.0.7"]})", NoHolder{}},
    {"Pod", R"({"addresses": ["10.55.0.7"], "holder": {"namespace": "a", "pod": "p"}})", PodHolder{"a", "p"}},
    {"StatefulSet",
     R"({"addresses": ["10.55.0.7"], "holder": {"namespace": "a", "statefulSet": "s"}})",
     StatefulSetHolder{"a", "s"}},
    {"Mac", R"({"addresses": ["10.55.0.7"], "holder": {"mac": "02:42:ac:11:00:02"}})", MacHolder{"02:42:ac:11:00:02"}},
};
INSTANTIATE_TEST_SUITE_P(Table, ReservationHolder, testing::ValuesIn(kHolders),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Reservation, IsReadWithEveryField) {
  const auto reservation = ParseReservation(
      ObjectWith(R"({"space": "blue", "addresses": ["10.55.0.7", "10.55.1.0/28", "2001:db8::1-2001:db8::9"],
                     "expires": "2027-01-31T12:00:00Z", "future": 1})"));
  ASSERT_TRUE(reservation.has_value()) << reservation.error().message;
  EXPECT_EQ(reservation->meta.name, "vip");
  EXPECT_EQ(reservation->space, "blue");
  EXPECT_THAT(reservation->addresses,
              testing::ElementsAre(
                  ipam::RangeOf("10.55.0.7"), ipam::RangeOf("10.55.1.0/28"), ipam::RangeOf("2001:db8::1-2001:db8::9")));
  EXPECT_EQ(reservation->expires_ms, 1801396800000);
}

TEST(Reservation, IsInTheDefaultSpaceAndNeverExpires) {
  const auto reservation = ParseReservation(ObjectWith(R"({"addresses": ["10.55.0.7"]})"));
  ASSERT_TRUE(reservation.has_value()) << reservation.error().message;
  EXPECT_EQ(reservation->space, "default");
  EXPECT_FALSE(reservation->expires_ms.has_value());
}

struct RefusedReservationCase {
  const char* name;
  const char* spec;
  const char* field;
};

class ReservationRefused : public testing::TestWithParam<RefusedReservationCase> {};

TEST_P(ReservationRefused, WithTheFieldNamed) {
  const auto reservation = ParseReservation(ObjectWith(GetParam().spec));
  ASSERT_FALSE(reservation.has_value());
  EXPECT_EQ(reservation.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(reservation.error().message, testing::StartsWith("IPReservation vip: " + std::string(GetParam().field)));
}

const RefusedReservationCase kRefusedReservationCases[] = {
    {"NoSpec", "null", "spec: is missing"},
    {"NoAddresses", "{}", "spec.addresses: is missing"},
    {"AddressesEmpty", R"({"addresses": []})", "spec.addresses"},
    {"AddressMalformed", R"({"addresses": ["10.55.0"]})", "spec.addresses"},
    {"HolderEmpty", R"({"addresses": ["10.55.0.7"], "holder": {}})", "spec.holder: must have exactly one"},
    {"TwoHolders",
     R"({"addresses": ["10.55.0.7"], "holder": {"namespace": "a", "pod": "p", "statefulSet": "s"}})",
     "spec.holder: must have exactly one"},
    {"PodWithoutNamespace", R"({"addresses": ["10.55.0.7"], "holder": {"pod": "p"}})", "spec.holder.namespace"},
    {"MacWithNamespace",
     R"({"addresses": ["10.55.0.7"], "holder": {"namespace": "a", "mac": "02:42:ac:11:00:02"}})",
     "spec.holder.namespace"},
    {"MacUpperCase", R"({"addresses": ["10.55.0.7"], "holder": {"mac": "02:42:AC:11:00:02"}})", "spec.holder.mac"},
    {"MacTooShort", R"({"addresses": ["10.55.0.7"], "holder": {"mac": "02:42:ac:11:00"}})", "spec.holder.mac"},
    {"MacWithDashes", R"({"addresses": ["10.55.0.7"], "holder": {"mac": "02-42-ac-11-00-02"}})", "spec.holder.mac"},
    {"ExpiresMalformed", R"({"addresses": ["10.55.0.7"], "expires": "tomorrow"})", "spec.expires"},
};
INSTANTIATE_TEST_SUITE_P(Table, ReservationRefused, testing::ValuesIn(kRefusedReservationCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::crds
