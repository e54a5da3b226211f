// SPDX-License-Identifier: Apache-2.0
// File names in CNI_NETNS, and whether the files exist.
#include "node/netns.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace berth::node {
namespace {

struct NameCase {
  const char* name;
  const char* path;
  const char* want;
};

class NetnsNameTest : public testing::TestWithParam<NameCase> {};

TEST_P(NetnsNameTest, IsThatOfAFileInAFolderOfNetworkNamespaces) {
  EXPECT_EQ(NetnsName(GetParam().path), GetParam().want);
}

constexpr NameCase kNameCases[] = {
    {"Containerd",
     "/var/run/netns/cni-0a1b2c3d-0000-1111-2222-333344445555",
     "cni-0a1b2c3d-0000-1111-2222-333344445555"},
    {"CriO", "/run/netns/0a1b2c3d-0000-1111-2222-333344445555", "0a1b2c3d-0000-1111-2222-333344445555"},
    {"BelowTheStateOfContainerd", "/run/containerd/io.containerd.grpc.v1.cri/netns/cni-1", "cni-1"},
    {"AProcess", "/proc/42/ns/net", ""},
    {"AFolderBelow", "/run/netns/a/b", ""},
    {"TheFolderAbove", "/run/netns/..", ""},
    {"ABlank", "/run/netns/a b", ""},
    {"TooLong", "/run/netns/01234567890123456789012345678901234567890123456789012345678901234", ""},
    {"None", "", ""},
};
INSTANTIATE_TEST_SUITE_P(Table, NetnsNameTest, testing::ValuesIn(kNameCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Netns, IsThereWhileItsFileIs) {
  std::string folder = testing::TempDir() + "netns.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(LookForNetns(folder, "cni-1"), NetnsState::kGone);
  std::ofstream(folder + "/cni-1").close();
  EXPECT_EQ(LookForNetns(folder, "cni-1"), NetnsState::kThere);
  EXPECT_EQ(LookForNetns(folder, "cni-2"), NetnsState::kGone);
  EXPECT_EQ(LookForNetns(folder, ".."), NetnsState::kGone);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(LookForNetns(folder, "cni-1"), NetnsState::kUnknown) << "the folder is not mounted";
}

TEST(Netns, IsUnknownIfNoFileCanBeOpened) {
  std::string folder = testing::TempDir() + "netns.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/cni-1").close();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Leave one free descriptor, for the folder, then none. open(2) uses the lowest free descriptor.
  const int next = dup(0);
  close(next);
  for (const int room : {1, 0}) {
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(next + room), .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const NetnsState state = LookForNetns(folder, "cni-1");
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(state, NetnsState::kUnknown) << room;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace berth::node
