// SPDX-License-Identifier: Apache-2.0
// IPReservations: which fields are read, and which texts are refused.
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
    {"ExpiresMalformed", R"({"addresses": ["10.55.0.7"], "expires": "tomorrow"})", "spec.expires"},
};
INSTANTIATE_TEST_SUITE_P(Table, ReservationRefused, testing::ValuesIn(kRefusedReservationCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::crds
