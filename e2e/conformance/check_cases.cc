// SPDX-License-Identifier: Apache-2.0
// Cases 101 to 109: CHECK.
#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

TEST_F(Conformance, Case101_CheckAfterAddSucceeds) {
  const json result = Ok(Base("ADD"));
  OkSilently(Base("CHECK").PrevResult(result));
}

TEST_F(Conformance, Case101_CheckAfterAddSucceedsInEveryVersionThatHasIt) {
  for (const char* version : {"0.4.0", "1.0.0", "1.1.0"}) {
    const json config = {{"cniVersion", version}};
    const json result = Ok(Base("ADD").Config(config));
    OkSilently(Base("CHECK").Config(config).PrevResult(result));
  }
}

TEST_F(Conformance, Case102_CheckNeedsAPrevResult) {
  Ok(Base("ADD"));
  Error(Base("CHECK"), {7}, "Required prevResult missing");
}

TEST_F(Conformance, Case103_CheckExistsFrom040On) {
  const json result = Ok(Base("ADD"));
  const Call check = Base("CHECK").PrevResult(result);
  Error(check.Config({{"cniVersion", "0.3.1"}}), {1}, "config version does not allow CHECK");
  Call absent = check;
  absent.config.erase("cniVersion");
  Error(absent, {1}, "config version does not allow CHECK");
}

TEST_F(Conformance, Case104_CheckWithoutReservationNamesTheContainer) {
  const json result = Ok(Base("ADD").With("CNI_CONTAINERID", "other"));
  Error(Base("CHECK").With("CNI_CONTAINERID", "sandbox-7").PrevResult(result), {103}, "sandbox-7");
  OkSilently(Base("DEL").With("CNI_CONTAINERID", "other"));
  Error(Base("CHECK").With("CNI_CONTAINERID", "other").PrevResult(result), {103}, "other");
}

TEST_F(Conformance, Case105_AnOwnAddressThatPrevResultLacksIsAnError) {
  json result = Ok(Base("ADD"));
  result["ips"][0]["address"] = "10.1.2.6/29";
  Error(Base("CHECK").PrevResult(result), {7, 999, 100}, "10.1.2.2");
  result["ips"] = json::array();
  Error(Base("CHECK").PrevResult(result), {7, 999, 100}, "10.1.2.2");
}

TEST_F(Conformance, Case105_AnotherGatewayInPrevResultIsAnError) {
  json result = Ok(Base("ADD"));
  result["ips"][0]["gateway"] = "10.1.2.5";
  Error(Base("CHECK").PrevResult(result), {7, 999, 100}, "10.1.2.5");
}

TEST_F(Conformance, Case106_WhatLaterPluginsAddedIsFine) {
  json result = Ok(Base("ADD"));
  result["ips"].push_back({{"address", "192.0.2.9/24"}, {"gateway", "192.0.2.1"}, {"interface", 0}});
  result["ips"][0]["interface"] = 2;
  result["interfaces"] = {{{"name", "eth0"}, {"mac", "00:11:22:33:44:55"}, {"sandbox", "/some/where"}}};
  result["routes"] = {{{"dst", "0.0.0.0/0"}}};
  OkSilently(Base("CHECK").PrevResult(result));
}

TEST_F(Conformance, Case107_PrevResultMustBeOfTheConfigurationsVersion) {
  json result = Ok(Base("ADD"));
  result.erase("cniVersion");
  OkSilently(Base("CHECK").PrevResult(result));
  result["cniVersion"] = "1.0.0";
  Error(Base("CHECK").PrevResult(result), {1, 7}, "1.0.0");
}

TEST_F(Conformance, Case108_CheckNeedsANetns) {
  const json result = Ok(Base("ADD"));
  Error(Base("CHECK").PrevResult(result).Without("CNI_NETNS"), {4}, "CNI_NETNS");
}

TEST_F(Conformance, Case109_ChecksChangeNothing) {
  const Call check = Base("CHECK").PrevResult(Ok(Base("ADD")));
  const auto before = cluster().Blocks(pools()[0]);
  for (const PluginOutcome& outcome : RunAll({check, check, check, check}))
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  OkSilently(check);
  EXPECT_EQ(cluster().Blocks(pools()[0]), before);
}

}  // namespace
}  // namespace berth::conformance
