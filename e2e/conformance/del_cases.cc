// SPDX-License-Identifier: Apache-2.0
// Cases 87 to 99: DEL.
#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(Conformance, Case087_DelFreesTheAddressSilently) {
  Ok(Base("ADD"));
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(Conformance, Case088_DelOfNothingSucceeds) {
  Ok(Base("ADD"));
  OkSilently(Base("DEL"));
  OkSilently(Base("DEL"));
  OkSilently(Base("DEL").With("CNI_CONTAINERID", "never-added"));
}

TEST_F(Conformance, Case089_DelNeedsNoNetns) {
  Ok(Base("ADD"));
  OkSilently(Base("DEL").Without("CNI_NETNS"));
  EXPECT_THAT(Allocated(), IsEmpty());
  Ok(Base("ADD"));
  OkSilently(Base("DEL").With("CNI_NETNS", "/var/run/netns/gone-" + tag()));
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(Conformance, Case090_TheRecordDecidesAndNotThePrevResult) {
  const std::vector<json> previous = {nullptr,
                                      json::object(),
                                      {{"cniVersion", "0.2.0"}, {"ip4", {{"ip", "10.1.2.2/29"}}}},
                                      {{"cniVersion", "1.1.0"}, {"ips", {{{"address", "10.1.2.6/29"}}}}},
                                      "junk"};
  for (const json& value : previous) {
    Ok(Base("ADD"));
    OkSilently(Base("DEL").PrevResult(value));
    EXPECT_THAT(Allocated(), IsEmpty()) << value;
  }
}

TEST_F(Conformance, Case091_DelNeedsContainerAndInterface) {
  Ok(Base("ADD"));
  Error(Base("DEL").Without("CNI_CONTAINERID"), {4}, "CNI_CONTAINERID");
  Error(Base("DEL").Without("CNI_IFNAME"), {4}, "CNI_IFNAME");
}

TEST_F(Conformance, Case092_DelOfOneInterfaceLeavesTheOther) {
  Ok(Base("ADD"));
  const auto kept = Addresses(Ok(Base("ADD").With("CNI_IFNAME", "eth1")));
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), ElementsAre(Host(kept.at(0))));
}

TEST_F(Conformance, Case093_DelInOneNetworkLeavesTheOther) {
  Ok(Base("ADD"));
  const auto kept = Addresses(Ok(Base("ADD").Config({{"name", "other-" + tag()}})));
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), ElementsAre(Host(kept.at(0))));
}

// A DEL finds entries by the attachment and needs no CNI_ARGS, so no error in CNI_ARGS may let the DEL fail.
TEST_F(Conformance, Case094_DelIgnoresMalformedArgs) {
  for (const char* args : {"FOO", "FOO=BAR", "A=b=c", ";", "IgnoreUnknown=yes", "IP=bogus"}) {
    Ok(Base("ADD"));
    OkSilently(Base("DEL").With("CNI_ARGS", args));
    EXPECT_THAT(Allocated(), IsEmpty()) << args;
  }
}

TEST_F(Conformance, Case095_DelWorksWhateverBecameOfThePool) {
  Ok(Base("ADD"));
  cluster().PatchPool(pools()[0], {{"spec", {{"exclude", {"10.1.2.0/30"}}, {"disabled", true}}}});
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), IsEmpty());

  const std::string second = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", "10.1.3.1"}});
  Ok(Base("ADD", {second}));
  cluster().DeletePool(second);
  OkSilently(Base("DEL", {second}));
  EXPECT_THAT(Allocated(), IsEmpty());

  const std::string third = MakePool({{"subnet", "10.1.4.0/29"}, {"gateway", "10.1.4.1"}});
  Ok(Base("ADD", {third}));
  OkSilently(Base("DEL", {"renamed-in-the-configuration"}));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// Without the section ipam, a DEL uses the defaults: the kubelet's kubeconfig, /var/lib/berth, and /run/berth or the
// agent's socket there. The test puts them into a mount namespace.
TEST_F(Conformance, Case096_DelWithoutIpamUsesTheDefaults) {
  Ok(Base("ADD"));
  const std::string wrapper = Scratch() + "/in-a-mount-namespace";
  const std::string kubeconfig = Settings::Get().NodeKubeconfig(Settings::Get().NodeName());
  const std::string mode = InAgentMode() ? "/bin/mkdir /run/berth\n: >/run/berth/agent.sock\n/bin/mount --bind " +
                                               Settings::Get().AgentSocket() + " /run/berth/agent.sock\n"
                                         : "/bin/mkdir /var/lib/berth\necho direct >/var/lib/berth/mode\n";
  std::ofstream(wrapper) << "#!/bin/sh\n"
                            "exec /usr/bin/unshare --mount /bin/sh -ec '\n"
                            "/bin/mkdir "
                         << Scratch() << "/k\n/bin/cp " << kubeconfig << " " << Scratch()
                         << "/k/kubeconfig\n"
                            "/bin/mount -t tmpfs tmpfs /run\n"
                            "/bin/mount -t tmpfs tmpfs /var/lib\n"
                            "/bin/mkdir /var/lib/kubelet\n"
                            "/bin/cp "
                         << Scratch() << "/k/kubeconfig /var/lib/kubelet/kubeconfig\n"
                         << mode << "exec " << Settings::Get().plugin << "'\n";
  std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
  Call call = Base("DEL");
  call.config.erase("ipam");
  call.binary = wrapper;
  OkSilently(call);
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(Conformance, Case097_DelRefusesVersionsAndTextItCannotRead) {
  Ok(Base("ADD"));
  Error(Base("DEL").Config({{"cniVersion", "9.8.7"}}), {1}, "9.8.7");
  Error(Base("DEL").Input("{"), {6}, "stdin");
}

TEST_F(Conformance, Case098_DelAfterAFailedAddLeavesNothing) {
  const Call add = Base("ADD", {MakePool(), "missing-" + tag()});
  Error(add, {7}, "missing-" + tag());
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// The ADD has started, but reads its input only after a DEL of the same attachment has ended. No later DEL would free
// an address that this ADD takes.
TEST_F(Conformance, Case098_AnAddThatADelOvertookTakesNothing) {
  PluginProcess add(Prepare(Base("ADD")));
  ASSERT_TRUE(add.AwaitReading());
  OkSilently(Base("DEL"));
  ExpectError(add.Wait(), {11}, "DEL");
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(Conformance, Case098_AddAndDelAtTheSameTimeLeaveNothing) {
  const Call add = Base("ADD");
  for (int round = 0; round < 10; ++round) {
    const std::string id = "c" + std::to_string(round);
    PluginProcess running(Prepare(add.With("CNI_CONTAINERID", id)));
    ASSERT_TRUE(running.AwaitReading());
    std::thread waiting([&] { static_cast<void>(running.Wait()); });
    OkSilently(Base("DEL").With("CNI_CONTAINERID", id));
    waiting.join();
  }
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(Conformance, Case099_DelOfAnOldSandboxLeavesTheNewOneOfTheSamePod) {
  const std::string pod =
      "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-0;K8S_POD_UID=11111111-2222-3333-4444-555555555555";
  Ok(Base("ADD").With("CNI_ARGS", pod + ";K8S_POD_INFRA_CONTAINER_ID=c1"));
  const auto kept = Addresses(Ok(Base("ADD").With("CNI_CONTAINERID", "c2").With("CNI_ARGS", pod)));
  OkSilently(Base("DEL").With("CNI_ARGS", pod));
  EXPECT_THAT(Allocated(), ElementsAre(Host(kept.at(0))));
}

}  // namespace
}  // namespace berth::conformance
