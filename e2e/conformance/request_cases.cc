// SPDX-License-Identifier: Apache-2.0
// Cases 65 to 80: requested addresses, CNI_ARGS, bad pools, DNS.
#include <fstream>

#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Requests : public Conformance {
 protected:
  Requests() { MakePool({{"allowRequests", true}}); }

  [[nodiscard]] Call WithIp(const std::string& text) { return Base("ADD").With("CNI_ARGS", "IP=" + text); }
};

json ArgsIps(const json& ips) { return {{"args", {{"cni", {{"ips", ips}}}}}}; }
json RuntimeIps(const json& ips) { return {{"runtimeConfig", {{"ips", ips}}}}; }

TEST_F(Requests, Case065_ARequestedAddressIsGivenWithThePoolsMask) {
  EXPECT_THAT(Addresses(Ok(WithIp("10.1.2.5"))), ElementsAre("10.1.2.5/29"));
  EXPECT_THAT(Addresses(Ok(WithIp("10.1.2.4/16").With("CNI_CONTAINERID", "c2"))), ElementsAre("10.1.2.4/29"));
}

TEST_F(Requests, Case066_AddressesThatCannotBeGivenAreRefused) {
  Error(WithIp("10.1.2.1"), {7, 101}, "10.1.2.1");
  Error(WithIp("10.1.2.0"), {7, 101}, "10.1.2.0");
  Error(WithIp("10.1.2.7"), {7, 101}, "10.1.2.7");
  Error(WithIp("10.9.9.9"), {7}, "10.9.9.9");
  Error(WithIp("2001:db8::9"), {7}, "2001:db8::9");
  Ok(WithIp("10.1.2.3"));
  Error(WithIp("10.1.2.3").With("CNI_CONTAINERID", "c2"), {101}, "10.1.2.3");
}

TEST_F(Requests, Case067_WhatIsNoAddressIsRefusedAndNothingMeansAny) {
  Error(WithIp("bogus"), {4}, "bogus");
  Error(WithIp(" 10.1.2.9"), {4}, " 10.1.2.9");
  EXPECT_THAT(Addresses(Ok(WithIp(""))), ElementsAre("10.1.2.2/29"));
}

// A list with commas may contain one address of each family, as with the plugin static.
TEST_F(Requests, Case068_AListOfOneAddressOfEachFamilyIsGiven) {
  const std::string v6 = MakePool6({{"allowRequests", true}});
  const Call call = Base("ADD", {pools()[0], v6}).With("CNI_ARGS", "IP=10.1.2.5,2001:db8:1:2::5/64");
  EXPECT_THAT(Addresses(Ok(call)), ElementsAre("10.1.2.5/29", "2001:db8:1:2::5/125"));
  Error(WithIp("10.1.2.3,10.1.2.4").With("CNI_CONTAINERID", "c2"), {4}, "requests two IPv4 addresses");
}

TEST_F(Requests, Case069_ArgsAndRuntimeConfigAreHonouredWithAndWithoutALength) {
  EXPECT_THAT(Addresses(Ok(Base("ADD").Config(ArgsIps({"10.1.2.3"})))), ElementsAre("10.1.2.3/29"));
  EXPECT_THAT(Addresses(Ok(Base("ADD").With("CNI_CONTAINERID", "c2").Config(ArgsIps({"10.1.2.4/24"})))),
              ElementsAre("10.1.2.4/29"));
  EXPECT_THAT(Addresses(Ok(Base("ADD").With("CNI_CONTAINERID", "c3").Config(RuntimeIps({"10.1.2.5"})))),
              ElementsAre("10.1.2.5/29"));
  EXPECT_THAT(Addresses(Ok(Base("ADD").With("CNI_CONTAINERID", "c4").Config(RuntimeIps({"10.1.2.6/8"})))),
              ElementsAre("10.1.2.6/29"));
}

TEST_F(Requests, Case070_RuntimeConfigWinsOverArgsAndArgsOverCniArgs) {
  const Call all = WithIp("10.1.2.3").Config(ArgsIps({"10.1.2.4"})).Config(RuntimeIps({"10.1.2.5"}));
  EXPECT_THAT(Addresses(Ok(all)), ElementsAre("10.1.2.5/29"));
  const Call two = WithIp("10.1.2.3").Config(ArgsIps({"10.1.2.4"})).With("CNI_CONTAINERID", "c2");
  EXPECT_THAT(Addresses(Ok(two)), ElementsAre("10.1.2.4/29"));
}

TEST_F(Requests, Case071_TwoRequestedAddressesOfAFamilyLeaveWhatThePairHas) {
  Ok(Base("ADD"));
  Error(Base("ADD").Config(ArgsIps({"10.1.2.3", "10.1.2.4"})), {7}, "requests two IPv4 addresses");
  EXPECT_THAT(Allocated(), ElementsAre("10.1.2.2"));
}

TEST_F(Conformance, Case072_UnknownArgsAreRefusedUnlessIgnored) {
  Error(Base("ADD").With("CNI_ARGS", "FOO=BAR"), {4}, "FOO=BAR");
  for (const char* yes : {"1", "true", "TRUE"}) {
    Ok(Base("ADD").With("CNI_ARGS", "FOO=BAR;IgnoreUnknown=" + std::string(yes)));
  }
}

TEST_F(Conformance, Case073_IgnoreUnknownIsABoolean) {
  Error(Base("ADD").With("CNI_ARGS", "IgnoreUnknown=yes"), {4}, "IgnoreUnknown=yes");
}

TEST_F(Conformance, Case074_MalformedPairsAreRefusedEvenIfUnknownOnesAreIgnored) {
  for (const char* pair : {"FOO", "A=b=c", "", ";"}) {
    Error(Base("ADD").With("CNI_ARGS", "IgnoreUnknown=1;" + std::string(pair)), {4}, "invalid pair");
  }
}

TEST_F(Conformance, Case075_TheLastDuplicateWinsAndEmptyValuesAreFine) {
  Ok(Base("ADD").With("CNI_ARGS",
                      "IgnoreUnknown=0;FOO=BAR;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=first;K8S_POD_NAME=last;K8S_POD_UID=;"
                      "K8S_POD_INFRA_CONTAINER_ID=;IgnoreUnknown=1"));
  EXPECT_THAT(cluster().Entries(pools()[0]), ElementsAre(testing::Pair("10.1.2.2", StartsWith("ns/last - "))));
  Ok(Base("ADD").With("CNI_CONTAINERID", "c2").With("CNI_ARGS", "K8S_POD_NAME=;K8S_POD_UID=;K8S_POD_NAMESPACE="));
}

TEST_F(Conformance, Case076_WithoutPodTheOwnerIsTheContainer) {
  Ok(Base("ADD"));
  EXPECT_THAT(cluster().Entries(pools()[0]), ElementsAre(testing::Pair("10.1.2.2", StartsWith("-/- - "))));
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// berth ignores ipRanges, because pools are objects of the cluster and not parts of a call.
TEST_F(Conformance, Case077_IpRangesAreIgnored) {
  Call call = Base("ADD");
  call.config["runtimeConfig"]["ipRanges"] = {{{{"subnet", "10.77.0.0/24"}}}};
  EXPECT_THAT(Addresses(Ok(call)), ElementsAre("10.1.2.2/29"));
  call.config["runtimeConfig"]["ipRanges"] = "junk";
  Ok(call);
}

// The API server refuses a pool that is wrong in itself. If the error shows only in comparison with other pools, the
// controller does not accept the pool, and the pool does not become Ready.
TEST_F(Conformance, Case078_BadPoolsAreRefusedOrNeverReady) {
  const auto spec = [this](const json& patch) {
    json value = {{"space", "s-" + tag()}, {"subnet", "10.1.2.0/24"}};
    value.merge_patch(patch);
    return value;
  };
  const std::vector<std::pair<json, std::string>> refused = {
      {spec({{"subnet", "10.1.2.1/24"}}), "10.1.2.1/24"},
      {spec({{"subnet", "010.1.2.0/24"}}), "subnet"},
      {spec({{"subnet", "::ffff:10.1.2.0/120"}}), "subnet"},
      {spec({{"ranges", {"10.1.3.5"}}}), "ranges"},
      {spec({{"ranges", {"10.1.2.5-2001:db8::9"}}}), "ranges"},
      {spec({{"gateway", "10.9.0.1"}}), "gateway"},
      {spec({{"blockSize", 33}}), "blockSize"},
  };
  for (const auto& [bad, about] : refused) {
    const auto created = cluster().TryCreatePool("bad-" + tag(), bad);
    ASSERT_FALSE(created.has_value()) << bad;
    EXPECT_EQ(created.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(created.error().message + created.error().details, HasSubstr(about));
  }
  const std::string backwards = "backwards-" + tag();
  ASSERT_TRUE(cluster().TryCreatePool(backwards, spec({{"ranges", {"10.1.2.9-10.1.2.5"}}})).has_value());
  Adopt(backwards);
  Error(Base("ADD", {backwards}), {7}, backwards);
}

TEST_F(Conformance, Case079_AddIgnoresThePrevResultOfAChain) {
  json previous = {
      {"cniVersion", "1.1.0"}, {"ips", {{{"address", "192.0.2.9/24"}}}}, {"interfaces", {{{"name", "eth0"}}}}};
  EXPECT_THAT(Addresses(Ok(Base("ADD").PrevResult(previous))), ElementsAre("10.1.2.2/29"));
}

TEST_F(Conformance, Case080_DnsComesFromTheConfigurationOrAFileAndAMissingFileIsAnError) {
  Call call = Base("ADD");
  call.config["ipam"]["dns"] = {{"nameservers", {"192.0.2.53"}}, {"domain", "example.org"}};
  EXPECT_EQ(Ok(call)["dns"], call.config["ipam"]["dns"]);

  const std::string file = Scratch() + "/resolv.conf";
  std::ofstream(file) << "# comment\nnameserver 192.0.2.54\nsearch a.example.org\n";
  call.config["ipam"].erase("dns");
  call.config["ipam"]["resolvConf"] = file;
  const json want = {{"nameservers", {"192.0.2.54"}}, {"search", {"a.example.org"}}};
  EXPECT_EQ(Ok(call)["dns"], want);

  call.config["ipam"]["resolvConf"] = file + ".missing";
  Error(call.With("CNI_CONTAINERID", "c2"), {5, 7}, file);
}

TEST_F(Conformance, Case080_DnsOfThePoolIsGivenWhereTheConfigurationHasNone) {
  const json dns = {{"nameservers", {"192.0.2.53"}}, {"search", {"example.org"}}};
  EXPECT_EQ(Ok(Base("ADD", {MakePool({{"dns", dns}})}))["dns"], dns);
}

// containerd and CRI-O pass annotations like this if the configuration declares the capability.
json Annotated(const std::string& pool) {
  return {{"runtimeConfig", {{"io.kubernetes.cri.pod-annotations", {{"ipam.berth.dev/pools", pool}}}}}};
}

TEST_F(Conformance, AnnotationsFromTheRuntimeChooseThePool) {
  const std::string first = MakePool();
  const std::string second = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", "10.1.3.1"}});
  const json chosen = Annotated(second);
  EXPECT_THAT(Addresses(Ok(Base("ADD", {first, second}).Config(chosen))), testing::ElementsAre("10.1.3.2/29"));
  EXPECT_THAT(Addresses(Ok(Base("ADD", {first, second}).With("CNI_IFNAME", "net1").Config(chosen))),
              testing::ElementsAre("10.1.2.2/29"))
      << "it speaks of the pod's own interface";
}

TEST_F(Conformance, AnAnnotationChoosesAPoolThatNobodyConfiguredOnlyIfThePoolAllowsIt) {
  const std::string first = MakePool();
  const std::string closed = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", nullptr}});
  const std::string open = MakePool({{"subnet", "10.1.4.0/29"}, {"gateway", nullptr}, {"allowAnnotation", true}});
  Error(Base("ADD", {first}).Config(Annotated(closed)), {7}, "allowAnnotation");
  EXPECT_THAT(Addresses(Ok(Base("ADD", {first}).Config(Annotated(open)))), testing::ElementsAre("10.1.4.1/29"));
}

}  // namespace
}  // namespace berth::conformance
