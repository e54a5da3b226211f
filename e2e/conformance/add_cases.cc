// SPDX-License-Identifier: Apache-2.0
// Cases 46 to 64: ADD: the shape of results, the choice of addresses, and all addresses or none.
#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kVersions[] = {"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};

// A call of this version, with its own container, so that one pool serves all versions.
Call OfVersion(const Call& base, std::string version) {
  return base.With("CNI_CONTAINERID", "v" + version).Config({{"cniVersion", version}});
}

TEST_F(Conformance, Case046_EveryVersionGetsItsShape) {
  const Call base = Base("ADD", {MakePool({{"subnet", "10.1.2.0/24"}})});
  for (const std::string version : kVersions) {
    const json result = Ok(OfVersion(base, version));
    EXPECT_EQ(result.value("cniVersion", ""), version);
    const bool old = version < "0.3.0";
    EXPECT_EQ(result.contains("ip4"), old) << result;
    EXPECT_EQ(result.contains("ips"), !old) << result;
    EXPECT_THAT(Addresses(result), ElementsAre(testing::EndsWith("/24")));
  }
}

TEST_F(Conformance, Case047_AddressesCarryAVersionFrom030To040Only) {
  const Call base = Base("ADD", {MakePool({{"subnet", "10.1.2.0/24"}}), MakePool6({{"subnet", "2001:db8:1:2::/120"}})});
  for (const char* version : {"0.3.0", "0.3.1", "0.4.0"}) {
    const json result = Ok(OfVersion(base, version));
    EXPECT_EQ(result["ips"][0].value("version", ""), "4");
    EXPECT_EQ(result["ips"][1].value("version", ""), "6");
  }
  for (const char* version : {"1.0.0", "1.1.0"}) {
    EXPECT_FALSE(Ok(OfVersion(base, version))["ips"][0].contains("version"));
  }
}

TEST_F(Conformance, Case048_NoVersionHasInterfaces) {
  const Call base = Base("ADD", {MakePool({{"subnet", "10.1.2.0/24"}})});
  for (const char* version : kVersions)
    EXPECT_THAT(Ok(OfVersion(base, version)).dump(), testing::Not(HasSubstr("interface")));
}

TEST_F(Conformance, Case049_TheFirstFreeAddressOfASmallPoolFollowsTheGateway) {
  const json result = Ok(Base("ADD"));
  EXPECT_THAT(Addresses(result), ElementsAre("10.1.2.2/29"));
  EXPECT_EQ(result["ips"][0].value("gateway", ""), "10.1.2.1");
}

TEST_F(Conformance, Case050_RoutesArePassedThroughInOrder) {
  Call call = Base("ADD");
  call.config["ipam"]["routes"] = {{{"dst", "192.0.2.0/24"}, {"gw", "10.1.2.5"}},
                                   {{"dst", "0.0.0.0/0"}},
                                   {{"dst", "198.51.100.0/24"}, {"gw", ""}},
                                   {{"dst", "203.0.113.0/24"}, {"gw", nullptr}}};
  const json want = {{{"dst", "192.0.2.0/24"}, {"gw", "10.1.2.5"}},
                     {{"dst", "0.0.0.0/0"}},
                     {{"dst", "198.51.100.0/24"}},
                     {{"dst", "203.0.113.0/24"}}};
  EXPECT_EQ(Ok(call)["routes"], want);
}

TEST_F(Conformance, Case050_RoutesOfThePoolAreGivenWhereTheConfigurationHasNone) {
  const json routes = {{{"dst", "0.0.0.0/0"}, {"gw", "10.1.2.1"}}};
  EXPECT_EQ(Ok(Base("ADD", {MakePool({{"routes", routes}})}))["routes"], routes);
}

TEST_F(Conformance, Case051_TwoRoutesToOneDestinationAreBothKept) {
  Call call = Base("ADD");
  const json routes = {{{"dst", "0.0.0.0/0"}, {"gw", "10.1.2.5"}}, {{"dst", "0.0.0.0/0"}, {"gw", "10.1.2.6"}}};
  call.config["ipam"]["routes"] = routes;
  EXPECT_EQ(Ok(call)["routes"], routes);
}

TEST_F(Conformance, Case052_RouteAttributesArePrintedIn110Only) {
  Call call = Base("ADD");
  const json routes = {{{"dst", "0.0.0.0/0"}, {"mtu", 1400}, {"priority", 5}, {"table", 100}, {"scope", 253}}};
  call.config["ipam"]["routes"] = routes;
  EXPECT_EQ(Ok(call)["routes"], routes);
  EXPECT_EQ(Ok(call.Config({{"cniVersion", "1.0.0"}}))["routes"], json::array({{{"dst", "0.0.0.0/0"}}}));
}

TEST_F(Conformance, Case053_ARouteToNoPrefixIsRefused) {
  Call call = Base("ADD");
  for (const char* destination : {"10.0.0.0", "x", "10.0.0.0/33"}) {
    call.config["ipam"]["routes"] = {{{"dst", destination}}};
    Error(call, {7}, "ipam.routes[0].dst");
  }
}

TEST_F(Conformance, Case054_DualStackOf020SplitsRoutesByFamily) {
  Call call = Base("ADD", {MakePool(), MakePool6()}).Config({{"cniVersion", "0.2.0"}});
  call.config["ipam"]["routes"] = {{{"dst", "::/0"}}, {{"dst", "0.0.0.0/0"}}};
  const json result = Ok(call);
  EXPECT_EQ(result["ip4"]["routes"], json::array({{{"dst", "0.0.0.0/0"}}}));
  EXPECT_EQ(result["ip6"]["routes"], json::array({{{"dst", "::/0"}}}));
}

// berth gives an interface one address of each family. If the configuration names two pools of a family, the second is
// used only if the first has no address. If a call requests two addresses of a family, berth refuses it.
TEST_F(Conformance, Case055_TwoAddressesOfOneFamilyNeverComeAbout) {
  const std::string first = MakePool({{"allowRequests", true}});
  const std::string second = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", "10.1.3.1"}, {"allowRequests", true}});
  const Call call = Base("ADD", {first, second}).Config({{"cniVersion", "0.2.0"}});
  Error(call.Config({{"args", {{"cni", {{"ips", {"10.1.2.3", "10.1.3.3"}}}}}}}), {7}, "requests two IPv4 addresses");
  EXPECT_THAT(Addresses(Ok(call)), ElementsAre("10.1.2.2/29"));
}

TEST_F(Conformance, Case056_VersionSixAloneWorksIn010) {
  const json result = Ok(Base("ADD", {MakePool6()}).Config({{"cniVersion", "0.1.0"}}));
  EXPECT_EQ(result["ip6"].value("ip", ""), "2001:db8:1:2::2/125");
  EXPECT_FALSE(result.contains("ip4"));
}

TEST_F(Conformance, Case057_DualStackKeepsTheConfiguredOrder) {
  const std::string v4 = MakePool();
  const std::string v6 = MakePool6();
  const Call call = Base("ADD", {v6, v4}).Config({{"cniVersion", "1.0.0"}});
  EXPECT_THAT(Addresses(Ok(call)), ElementsAre("2001:db8:1:2::2/125", "10.1.2.2/29"));
  const Call other = Base("ADD", {v4, v6}).With("CNI_CONTAINERID", "c2");
  EXPECT_THAT(Addresses(Ok(other)), ElementsAre("10.1.2.3/29", "2001:db8:1:2::3/125"));
}

// A repeated ADD, for example after a killed one, must find the address that the attachment already has.
TEST_F(Conformance, Case058_AddTwiceGivesTheSameResult) {
  const json first = Ok(Base("ADD"));
  EXPECT_EQ(Ok(Base("ADD")), first);
  EXPECT_THAT(Allocated(), SizeIs(1));
}

TEST_F(Conformance, Case059_AnotherInterfaceGetsAnotherAddress) {
  EXPECT_NE(Addresses(Ok(Base("ADD"))), Addresses(Ok(Base("ADD").With("CNI_IFNAME", "eth1"))));
  EXPECT_THAT(Allocated(), SizeIs(2));
}

TEST_F(Conformance, Case060_AnotherNetworkIsIndependent) {
  EXPECT_NE(Addresses(Ok(Base("ADD"))), Addresses(Ok(Base("ADD").Config({{"name", "other-" + tag()}}))));
  EXPECT_THAT(Allocated(), SizeIs(2));
}

TEST_F(Conformance, Case061_AnExhaustedPoolIsNamedAndServesAgainAfterADel) {
  const Call add = Base("ADD");
  std::vector<std::string> given;
  for (int i = 1; i <= 5; ++i) {
    given.push_back(Addresses(Ok(add.With("CNI_CONTAINERID", "c" + std::to_string(i)))).at(0));
  }
  EXPECT_THAT(given, ElementsAre("10.1.2.2/29", "10.1.2.3/29", "10.1.2.4/29", "10.1.2.5/29", "10.1.2.6/29"));
  const Call sixth = add.With("CNI_CONTAINERID", "c6");
  Error(sixth, {100}, pools()[0]);
  OkSilently(Base("DEL").With("CNI_CONTAINERID", "c3"));
  EXPECT_THAT(Addresses(Ok(sixth)), ElementsAre("10.1.2.4/29"));
}

TEST_F(Conformance, Case063_ExactlyOneOfTwoGetsTheLastAddress) {
  const Call add = Base("ADD");
  for (const char* id : {"c1", "c2", "c3", "c4"}) Ok(add.With("CNI_CONTAINERID", id));
  const auto outcomes = RunAll({add.With("CNI_CONTAINERID", "c5"), add.With("CNI_CONTAINERID", "c6")});
  EXPECT_NE(outcomes[0].exit_code == 0, outcomes[1].exit_code == 0);
  ExpectError(outcomes[outcomes[0].exit_code == 0 ? 1 : 0], {100}, pools()[0]);
  EXPECT_THAT(Allocated(), SizeIs(5));
}

TEST_F(Conformance, Case064_WhenOneFamilyIsFullTheOtherIsGivenBack) {
  const std::string v4 = MakePool();
  const std::string v6 = MakePool6();
  for (const char* id : {"a", "b", "c", "d", "e"}) Ok(Base("ADD", {v6}).With("CNI_CONTAINERID", id));
  Error(Base("ADD", {v4, v6}), {100}, v6);
  EXPECT_THAT(cluster().Entries(v4), IsEmpty());
}

}  // namespace
}  // namespace berth::conformance
