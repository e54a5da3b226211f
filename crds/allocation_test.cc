// SPDX-License-Identifier: Apache-2.0
// IPAllocations: what is derived from the other fields, what is refused, what a patch contains.
#include "crds/allocation.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ipam/test_values.h"

namespace berth::crds {
namespace {

using Json = nlohmann::json;

constexpr const char* kAttachment = "0123456789ab-0123456789abcdef";

Allocation GoodAllocation() {
  Allocation allocation;
  allocation.meta.name = AllocationName("web-0", kAttachment);
  allocation.meta.name_space = "team-a";
  allocation.pod = "web-0";
  allocation.uid = "5b7e-4f60";
  allocation.interface = "eth0";
  allocation.node = "n1";
  allocation.addresses = {{.address = ipam::AddressOf("10.55.0.7"), .pool = "web", .block = "10.55.0.0-26"},
                          {.address = ipam::AddressOf("2001:db8::"), .pool = "web6", .block = "2001-db8---122"}};
  return allocation;
}

TEST(Allocation, IsWrittenWithEverythingDerived) {
  EXPECT_EQ(AllocationToJson(GoodAllocation()), Json::parse(R"({
    "apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPAllocation",
    "metadata": {
      "name": "web-0-0123456789ab-0123456789abcdef", "namespace": "team-a",
      "labels": {"ipam.berth.dev/node": "n1",
                 "ipam.berth.dev/ipv4": "10.55.0.7", "ipam.berth.dev/ipv4-pool": "web",
                 "ipam.berth.dev/ipv4-block": "10.55.0.0-26",
                 "ipam.berth.dev/ipv6": "2001-db8--0", "ipam.berth.dev/ipv6-pool": "web6",
                 "ipam.berth.dev/ipv6-block": "2001-db8---122"},
      "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "5b7e-4f60"}]},
    "spec": {"pod": "web-0", "uid": "5b7e-4f60", "interface": "eth0", "node": "n1", "ips": "10.55.0.7,2001:db8::",
             "addresses": [{"address": "10.55.0.7", "pool": "web", "block": "10.55.0.0-26"},
                           {"address": "2001:db8::", "pool": "web6", "block": "2001-db8---122"}]}})"));
}

TEST(Allocation, OfAStaticPodHasNoOwner) {
  Allocation allocation = GoodAllocation();
  allocation.uid = "0d3f1c2a5b7e4f609a1b";
  EXPECT_FALSE(AllocationToJson(allocation)["metadata"].contains("ownerReferences"));
}

TEST(Allocation, OnANodeWithALongNameHasNoNodeLabel) {
  Allocation allocation = GoodAllocation();
  allocation.node = std::string(64, 'n');
  EXPECT_FALSE(AllocationToJson(allocation)["metadata"]["labels"].contains("ipam.berth.dev/node"));
}

TEST(Allocation, IsTheSameAfterCreationAndReading) {
  const Allocation allocation = GoodAllocation();
  const auto again = ParseAllocation(AllocationToJson(allocation));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->pod, allocation.pod);
  EXPECT_EQ(again->uid, allocation.uid);
  EXPECT_EQ(again->interface, allocation.interface);
  EXPECT_EQ(again->node, allocation.node);
  EXPECT_EQ(again->addresses, allocation.addresses);
}

TEST(AllocationPatch, IsNullWhereNothingDiffers) {
  Json object = AllocationToJson(GoodAllocation());
  object["metadata"]["resourceVersion"] = "7";
  const auto read = ParseAllocation(object);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_TRUE(AllocationPatch(*read).is_null());
}

TEST(AllocationPatch, AddsAFamilyAndKeepsWhatItDoesNotKnow) {
  Allocation allocation = GoodAllocation();
  const AllocatedAddress second = allocation.addresses.back();
  allocation.addresses.pop_back();
  Json object = AllocationToJson(allocation);
  object["metadata"]["resourceVersion"] = "7";
  object["metadata"]["labels"]["mine"] = "x";
  object["spec"]["future"] = 1;
  object["spec"]["addresses"][0]["future"] = 2;
  auto read = ParseAllocation(object);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  read->addresses.push_back(second);
  EXPECT_EQ(AllocationPatch(*read), Json::parse(R"({
    "metadata": {"resourceVersion": "7",
                 "labels": {"ipam.berth.dev/ipv6": "2001-db8--0", "ipam.berth.dev/ipv6-pool": "web6",
                            "ipam.berth.dev/ipv6-block": "2001-db8---122"}},
    "spec": {"ips": "10.55.0.7,2001:db8::",
             "addresses": [{"address": "10.55.0.7", "pool": "web", "block": "10.55.0.0-26", "future": 2},
                           {"address": "2001:db8::", "pool": "web6", "block": "2001-db8---122"}]}})"));
}

TEST(AllocationPatch, RemovesTheLabelsOfAFamilyThatIsGone) {
  Json object = AllocationToJson(GoodAllocation());
  object["metadata"]["resourceVersion"] = "7";
  auto read = ParseAllocation(object);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  read->addresses.pop_back();
  EXPECT_EQ(AllocationPatch(*read)["metadata"]["labels"],
            Json({{"ipam.berth.dev/ipv6", nullptr},
                  {"ipam.berth.dev/ipv6-pool", nullptr},
                  {"ipam.berth.dev/ipv6-block", nullptr}}));
}

struct AllocationNameCase {
  const char* name;
  std::string pod;
  std::string want;
};

class AllocationNames : public testing::TestWithParam<AllocationNameCase> {};

TEST_P(AllocationNames, AreCutToWhatKubernetesTakes) {
  const std::string name = AllocationName(GetParam().pod, kAttachment);
  EXPECT_EQ(name, GetParam().want + "-" + kAttachment);
  EXPECT_LE(name.size(), 253U);
  EXPECT_EQ(AttachmentOfName(name), kAttachment);
}

const AllocationNameCase kAllocationNames[] = {
    {"Short", "web-0", "web-0"},
    {"JustFits", std::string(223, 'a'), std::string(223, 'a')},
    {"Cut", std::string(224, 'a'), std::string(223, 'a')},
    {"CutBehindADot", std::string(222, 'a') + ".b", std::string(222, 'a')},
    {"CutBehindADash", std::string(222, 'a') + "-b", std::string(222, 'a')},
};
INSTANTIATE_TEST_SUITE_P(Table, AllocationNames, testing::ValuesIn(kAllocationNames),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(AllocationNames, WithoutAnAttachmentAreNotOurs) {
  for (const char* name : {"",
                           "web-0",
                           "-0123456789ab-0123456789abcdef",
                           "web-0-0123456789AB-0123456789abcdef",
                           "web-0-0123456789ab_0123456789abcdef",
                           "web.0123456789ab-0123456789abcdef"}) {
    EXPECT_EQ(AttachmentOfName(name), std::nullopt) << name;
  }
}

struct LabelCase {
  const char* address;
  const char* want;
};

TEST(AddressLabelValue, IsAValidLabelThatReadsAsTheAddress) {
  constexpr LabelCase kCases[] = {{"10.55.0.7", "10.55.0.7"},
                                  {"2001:db8::7", "2001-db8--7"},
                                  {"2001:db8::", "2001-db8--0"},
                                  {"::1", "0--1"},
                                  {"::", "0--0"}};
  for (const LabelCase& c : kCases) EXPECT_EQ(AddressLabelValue(ipam::AddressOf(c.address)), c.want);
}

struct RefusedAllocationCase {
  const char* name;
  const char* path;
  Json value;
  const char* field;
};

class AllocationRefused : public testing::TestWithParam<RefusedAllocationCase> {};

TEST_P(AllocationRefused, WithTheFieldNamed) {
  Json object = AllocationToJson(GoodAllocation());
  object[Json::json_pointer(GetParam().path)] = GetParam().value;
  const auto allocation = ParseAllocation(object);
  ASSERT_FALSE(allocation.has_value());
  EXPECT_EQ(allocation.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(allocation.error().message, testing::StartsWith("IPAllocation"));
  EXPECT_THAT(allocation.error().message, testing::HasSubstr(GetParam().field));
}

const RefusedAllocationCase kRefusedAllocationCases[] = {
    {"NoObject", "", "x", "must be an object"},
    {"NoSpec", "/spec", nullptr, "team-a/web-0-0123456789ab-0123456789abcdef: spec: is missing"},
    {"NoPod", "/spec/pod", nullptr, "spec.pod"},
    {"NoUid", "/spec/uid", nullptr, "spec.uid"},
    {"InterfaceTooLong", "/spec/interface", "a23456789012345x", "spec.interface"},
    {"NodeNoText", "/spec/node", 1, "spec.node"},
    {"NoAddresses", "/spec/addresses", nullptr, "spec.addresses"},
    {"AddressMalformed", "/spec/addresses/1/address", "x", "spec.addresses[1].address"},
    {"PoolMissing", "/spec/addresses/1/pool", nullptr, "spec.addresses[1].pool"},
    {"BlockTooLong", "/spec/addresses/0/block", std::string(64, 'b'), "spec.addresses[0].block"},
    {"TooManyAddresses", "/spec/addresses", std::vector<Json>(9, Json::object()), "spec.addresses"},
};
INSTANTIATE_TEST_SUITE_P(Table, AllocationRefused, testing::ValuesIn(kRefusedAllocationCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::crds
