// SPDX-License-Identifier: Apache-2.0
// Bad input and refusals: each error names the wrong value, and no address is allocated.
#include <fstream>

#include "e2e/conformance/api_away.h"
#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_agent.h"

namespace berth::conformance {
namespace {

using testing::HasSubstr;

class BadInput : public Conformance {
 protected:
  [[nodiscard]] Call WithIp(const std::string& address) { return Base("ADD").With("CNI_ARGS", "IP=" + address); }
  [[nodiscard]] Call OfPod(const std::string& name_space) {
    return Base("ADD").With("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=web;K8S_POD_NAMESPACE=" + name_space);
  }
  // In agent mode, no program reads a kubeconfig that the network configuration names.
  void ExpectUnusable(const std::string& kubeconfig) {
    const Call call = WithKubeconfig(Base("ADD"), kubeconfig);
    if (InAgentMode()) {
      Ok(call);
    } else {
      Error(call, {6}, kubeconfig);
    }
  }
  // The error of an ADD with this kubeconfig. In agent mode, the kubeconfig is the agent's, and the agent never becomes
  // ready.
  json ErrorWithCredentials(const std::string& kubeconfig, const std::set<unsigned>& codes) {
    const Call call = WithKubeconfig(Base("ADD"), kubeconfig);
    if (!InAgentMode()) return Error(call, codes);
    const auto agent = StartAgent("unready-" + tag(), kubeconfig, Scratch());
    return Error(WithSocket(call, agent->settings().socket).Config({{"ipam", {{"timeoutSeconds", 5}}}}), codes);
  }
};

TEST_F(BadInput, APoolThatDoesNotExistIsNamed) {
  const json error = Error(Base("ADD", {"absent-" + tag()}), {7}, "pool absent-" + tag() + " does not exist");
  EXPECT_THAT(error.value("details", ""), HasSubstr("kubectl get ippools"));
}

TEST_F(BadInput, NoPoolAtAllIsAnError) { Error(Base("ADD", std::vector<std::string>{}), {7}, "ipam.pools"); }

TEST_F(BadInput, APoolThatIsNotReadyIsNamedWithTheReason) {
  MakePool();
  cluster().SetReady(pools()[0], false, "BlockSizeConflict", "blocks of /28 exist in the space");
  Error(Base("ADD"), {7}, pools()[0]);
  Error(Base("ADD"), {7}, "BlockSizeConflict");
  Error(Base("ADD"), {7}, "blocks of /28 exist in the space");
}

TEST_F(BadInput, APoolThatBecomesReadyServes) {
  MakePool();
  cluster().SetReady(pools()[0], false, "Pending", "");
  Error(Base("ADD"), {7}, pools()[0]);
  cluster().SetReady(pools()[0], true, "Accepted", "");
  Ok(Base("ADD"));
}

TEST_F(BadInput, ADisabledPoolIsNamed) {
  MakePool({{"disabled", true}});
  Error(Base("ADD"), {7}, "disabled");
}

TEST_F(BadInput, ARequestForAFamilyThatNoPoolHasIsRefused) {
  MakePool({{"allowRequests", true}});
  Error(WithIp("2001:db8::7"), {7}, "2001:db8::7");
}

TEST_F(BadInput, AFullPoolIsNamed) {
  MakePool({{"ranges", {"10.1.2.2"}}});
  Ok(Base("ADD").With("CNI_CONTAINERID", "first"));
  Error(Base("ADD"), {100}, pools()[0]);
}

TEST_F(BadInput, AFullPoolLetsTheNextOneHaveItsTurn) {
  const std::string full = MakePool({{"ranges", {"10.1.2.2"}}});
  const std::string second = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", "10.1.3.1"}});
  Ok(Base("ADD", {full, second}).With("CNI_CONTAINERID", "first"));
  EXPECT_THAT(Addresses(Ok(Base("ADD", {full, second}))), testing::ElementsAre("10.1.3.2/29"));
}

TEST_F(BadInput, APoolForOtherNodesIsRefused) {
  MakePool({{"nodeSelector", {{"matchLabels", {{"zone", "b"}}}}}});
  const std::string node = Settings::Get().NodeName();
  Error(Base("ADD"), {7}, node);
  cluster().LabelNode(node, {{"zone", "a"}});
  // The API server's or the agent's cache of nodes may lag for a moment.
  EXPECT_TRUE(Eventually([&] { return Run(Base("ADD")).out.find("zone") != std::string::npos; }));
  Error(Base("ADD"), {7}, "zone");
  cluster().LabelNode(node, {{"zone", "b"}});
  EXPECT_TRUE(Eventually([&] { return Run(Base("ADD")).exit_code == 0; }));
  cluster().LabelNode(node, {{"zone", nullptr}});
}

TEST_F(BadInput, APoolForOtherNamespacesIsRefused) {
  MakePool({{"namespaceSelector", {{"matchLabels", {{"team", "b"}}}}}});
  const std::string name_space = "team-" + tag();
  cluster().CreateNamespace(name_space, {{"team", "a"}});
  Error(OfPod(name_space), {7, 11}, name_space);
  Error(OfPod("absent-" + tag()), {7}, "absent-" + tag());
  Error(Base("ADD"), {7}, pools()[0]);
  cluster().DeleteNamespace(name_space);
}

TEST_F(BadInput, AMissingKubeconfigIsNamed) { ExpectUnusable(Scratch() + "/absent"); }

TEST_F(BadInput, AnUnreadableKubeconfigIsNamed) { ExpectUnusable(Scratch()); }

TEST_F(BadInput, AKubeconfigThatIsNoneIsNamed) {
  const std::string path = Scratch() + "/kubeconfig";
  for (const char* text : {"", "just text", "{\"a\": [", "apiVersion: v1\nkind: Config\n", "kind: Pod"}) {
    std::ofstream(path) << text;
    ExpectUnusable(path);
  }
}

TEST_F(BadInput, AKubeconfigWithAnotherClustersAuthorityIsRefused) {
  const std::string url = "https://127.0.0.1:" + std::to_string(e2e::UpstreamOf(Settings::Get().admin_kubeconfig).port);
  const std::string path = WriteKubeconfig(Scratch(), url + "\n    tls-server-name: other.example.org");
  const json error = ErrorWithCredentials(path, {6, 11});
  EXPECT_THAT(error.dump(), testing::AnyOf(HasSubstr("certificate"), HasSubstr("other.example.org")));
}

TEST_F(BadInput, ExpiredCredentialsAreRefused) {
  ErrorWithCredentials(Settings::Get().NodeKubeconfig("expired"), {6, 11});
}

TEST_F(BadInput, AUserWithoutRightsIsTold) {
  const json error = ErrorWithCredentials(Settings::Get().NodeKubeconfig("nobody"), {InAgentMode() ? 11U : 102U});
  EXPECT_THAT(error.dump(), HasSubstr("nobody"));
  EXPECT_THAT(error.dump(), HasSubstr(InAgentMode() ? "ipblocks" : "ippools"));
}

TEST_F(BadInput, ARequestIsRefusedWhereThePoolAllowsNone) {
  MakePool();
  Error(WithIp("10.1.2.4"), {7}, "allowRequests");
}

TEST_F(BadInput, ARequestForATakenAddressNamesIt) {
  MakePool({{"allowRequests", true}});
  Ok(WithIp("10.1.2.4"));
  Error(WithIp("10.1.2.4").With("CNI_CONTAINERID", "c2"), {101}, "10.1.2.4");
}

TEST_F(BadInput, ARequestOutsideTheRangesIsRefused) {
  MakePool({{"allowRequests", true}, {"ranges", {"10.1.2.2-10.1.2.4"}}, {"exclude", {"10.1.2.3"}}});
  Error(WithIp("10.1.2.5"), {7, 101}, "10.1.2.5");
  Error(WithIp("10.1.2.3"), {7, 101}, "10.1.2.3");
  Error(WithIp("10.55.0.1"), {7}, "10.55.0.1");
}

TEST_F(BadInput, ARequestForTheGatewayIsRefused) {
  MakePool({{"allowRequests", true}});
  Error(WithIp("10.1.2.1"), {7, 101}, "gateway");
}

// The controller writes a reservation into the pool's status, and as an entry into a block that exists.
TEST_F(BadInput, ARequestForAReservedAddressIsRefused) {
  MakePool({{"allowRequests", true}});
  cluster().Withhold(pools()[0], {"10.1.2.4"});
  Error(WithIp("10.1.2.4"), {101}, "10.1.2.4");
  Ok(Base("ADD").With("CNI_CONTAINERID", "first"));
  cluster().Reserve(pools()[0], "10.1.2.5", "printer");
  Error(WithIp("10.1.2.5"), {101}, "printer");
}

// conformance.sh runs these tests before it installs the CRDs.
using BeforeCrds = Conformance;

TEST_F(BeforeCrds, MissingCrdsAreNamed) {
  Call add = Base("ADD", {"any"});
  Call status = Base("STATUS", {"any"});
  std::unique_ptr<e2e::AgentProcess> agent;
  if (InAgentMode()) {
    const std::string node = Settings::Get().NodeName();
    agent = StartAgent(node, Settings::Get().NodeKubeconfig(node), Scratch());
    add = WithSocket(add, agent->settings().socket).Config({{"ipam", {{"timeoutSeconds", 5}}}});
    status = WithSocket(status, agent->settings().socket);
  }
  const json error = ExpectError(Run(add), {InAgentMode() ? 11U : 102U}, InAgentMode() ? "ipblocks" : "ippools");
  EXPECT_THAT(error.value("details", "") + error.value("msg", ""), HasSubstr("CRD"));
  ExpectError(Run(status), {50}, "");
}

}  // namespace
}  // namespace berth::conformance
