// SPDX-License-Identifier: Apache-2.0
// PathRules: paths that are always allowed, paths that root must allow, and paths that are never allowed.
#include "cni/path_rules.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni {
namespace {

using testing::HasSubstr;

constexpr std::array<std::string_view, 5> kAll = {"kubeconfig", "resolvConf", "stateDir", "agentSocket", "logFile"};

IpamConfig WithPath(const std::string& field, const std::string& path) {
  IpamConfig config;
  if (field == "kubeconfig") config.kubeconfig = path;
  if (field == "resolvConf") config.resolv_conf = path;
  if (field == "stateDir") config.state_dir = path;
  if (field == "agentSocket") config.agent_socket = path;
  if (field == "logFile") config.log_file = path;
  return config;
}

PathChecks Allowing(const std::vector<PathRule>& rules) {
  return {.more_rules = [rules](std::string_view) { return rules; },
          .fault = [](const PathRule&, std::string_view) { return std::string(); }};
}

TEST(PathRules, DefaultPathsNeedNoRuleOfTheAdministrator) {
  PathChecks checks = Allowing({});
  checks.more_rules = [](std::string_view) -> std::vector<PathRule> {
    ADD_FAILURE() << "a file was read for a configuration that names nothing unusual";
    return {};
  };
  EXPECT_TRUE(CheckPaths(IpamConfig(), kAll, checks).has_value());
}

struct PathCase {
  const char* name;
  const char* field;
  const char* path;
  bool is_good;
};
class PathTable : public testing::TestWithParam<PathCase> {};

TEST_P(PathTable, IsJudgedByItsField) {
  const PathCase& c = GetParam();
  const auto checked = CheckPaths(WithPath(c.field, c.path), kAll, Allowing({}));
  ASSERT_EQ(checked.has_value(), c.is_good);
  if (c.is_good) return;
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(checked.error().message, HasSubstr(std::string("ipam.") + c.field + " \"" + c.path + "\""));
  EXPECT_THAT(checked.error().details, HasSubstr("/etc/berth/allowed-paths"));
}

constexpr PathCase kPathCases[] = {
    {"Log", "logFile", "/var/log/berth/berth.log", true},
    {"LogInAFolder", "logFile", "/var/log/berth/a/b.log", true},
    {"LogElsewhere", "logFile", "/etc/cron.d/berth", false},
    {"LogIsTheFolder", "logFile", "/var/log/berth", false},
    {"LogIsTheFolderWithASlash", "logFile", "/var/log/berth/", false},
    {"LogInAFolderThatBeginsLikeIt", "logFile", "/var/log/berth-x/l", false},
    {"LogLeadsOut", "logFile", "/var/log/berth/../../../etc/cron.d/x", false},
    {"LogWithADot", "logFile", "/var/log/berth/./l", false},
    {"LogWithTwoSlashes", "logFile", "/var/log/berth//l", false},
    {"State", "stateDir", "/var/lib/berth", true},
    {"StateIsAFileOfTheAgent", "stateDir", "/var/lib/berth/mode", false},
    {"StateWithASlash", "stateDir", "/var/lib/berth/", false},
    {"StateElsewhere", "stateDir", "/root", false},
    {"StateLeadsOut", "stateDir", "/var/lib/berth/..", false},
    {"Socket", "agentSocket", "/run/berth/agent.sock", true},
    {"SocketAmongTheAgentsFiles", "agentSocket", "/run/berth/nodes/n1/creator/s", false},
    {"SocketOfAnotherName", "agentSocket", "/run/berth/other.sock", false},
    {"SocketOfTheRuntime", "agentSocket", "/run/containerd/containerd.sock", false},
    {"Kubeadm", "kubeconfig", "/etc/kubernetes/kubelet.conf", true},
    {"K3s", "kubeconfig", "/var/lib/rancher/k3s/agent/kubelet.kubeconfig", true},
    {"Rke2", "kubeconfig", "/var/lib/rancher/rke2/agent/kubelet.kubeconfig", true},
    {"K0s", "kubeconfig", "/var/lib/k0s/kubelet.conf", true},
    {"MicroK8s", "kubeconfig", "/var/snap/microk8s/current/credentials/kubelet.config", true},
    {"Talos", "kubeconfig", "/etc/kubernetes/kubeconfig-kubelet", true},
    {"OpenShiftAndEks", "kubeconfig", "/var/lib/kubelet/kubeconfig", true},
    {"Bottlerocket", "kubeconfig", "/etc/kubernetes/kubelet/kubeconfig", true},
    {"OfAPod", "kubeconfig", "/var/lib/kubelet/pods/u/volumes/x/kubeconfig", false},
    {"OfAPodThroughTheKubelets", "kubeconfig", "/var/lib/kubelet/kubeconfig/../pods/u/k", false},
    {"ResolvConf", "resolvConf", "/etc/resolv.conf", true},
    {"ResolvConfOfSystemd", "resolvConf", "/run/systemd/resolve/resolv.conf", true},
    {"ResolvConfIsASecret", "resolvConf", "/etc/shadow", false},
    {"Root", "resolvConf", "/", false},
};
INSTANTIATE_TEST_SUITE_P(Table, PathTable, testing::ValuesIn(kPathCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(PathRules, TheAdministratorMayAllowMore) {
  const auto checks = Allowing({"/opt/k/", "/srv/one"});
  EXPECT_TRUE(CheckPaths(WithPath("kubeconfig", "/opt/k/a"), kAll, checks).has_value());
  EXPECT_TRUE(CheckPaths(WithPath("logFile", "/srv/one"), kAll, checks).has_value());
  EXPECT_FALSE(CheckPaths(WithPath("logFile", "/srv/one.log"), kAll, checks).has_value());
  EXPECT_FALSE(CheckPaths(WithPath("logFile", "/opt/k/../x"), kAll, checks).has_value());
}

TEST(PathRules, TheErrorSaysWhatIsWrongInTheFileSystem) {
  PathChecks checks = Allowing({});
  checks.fault = [](const PathRule& rule, std::string_view) {
    return rule == "/var/log/berth/" ? std::string("leads through a link") : std::string();
  };
  EXPECT_TRUE(CheckPaths(IpamConfig(), kAll, checks).has_value());
  const auto checked = CheckPaths(WithPath("logFile", "/var/log/berth/x"), kAll, checks);
  ASSERT_FALSE(checked.has_value());
  EXPECT_THAT(checked.error().message, HasSubstr("leads through a link"));
}

TEST(PathRules, NothingInTheFolderOfTheSocketIsALink) {
  PathChecks checks = Allowing({});
  checks.fault = [](const PathRule& rule, std::string_view path) {
    return rule == "/run/berth/" && path == IpamConfig().agent_socket ? std::string("is a link") : std::string();
  };
  EXPECT_FALSE(CheckPaths(IpamConfig(), kAll, checks).has_value());
}

TEST(PathRules, DoNotApplyToAFieldThatTheProgramDoesNotRead) {
  constexpr std::array<std::string_view, 2> kOfBerth = {"stateDir", "agentSocket"};
  EXPECT_TRUE(CheckPaths(WithPath("logFile", "/etc/cron.d/x"), kOfBerth, Allowing({})).has_value());
  EXPECT_FALSE(CheckPaths(WithPath("stateDir", "/etc/cron.d"), kOfBerth, Allowing({})).has_value());
}

TEST(PathRules, AreReadLineByLine) {
  constexpr const char* kText =
      "# ours\nlogFile /opt/k/\n\n  logFile  /srv/one \t\r\n/no/field\nlogFile relative\n#logFile /etc/\nlogFiles /x\n"
      "kubeconfig /etc/k\nlogFile/y\nlogFile /last";
  EXPECT_THAT(ParseRules(kText, "logFile"), testing::ElementsAre("/opt/k/", "/srv/one", "/last"));
  EXPECT_THAT(ParseRules(kText, "kubeconfig"), testing::ElementsAre("/etc/k")) << "each field has its own";
  EXPECT_THAT(ParseRules("", "logFile"), testing::IsEmpty());
}

}  // namespace
}  // namespace berth::cni
