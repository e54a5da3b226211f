// SPDX-License-Identifier: Apache-2.0
// Which names CNI_NETNS has, and whether they are there.
#include "node/netns.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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
  EXPECT_FALSE(HasNetns(folder, "cni-1"));
  std::ofstream(folder + "/cni-1").close();
  EXPECT_TRUE(HasNetns(folder, "cni-1"));
  EXPECT_FALSE(HasNetns(folder, "cni-2"));
  EXPECT_FALSE(HasNetns(folder, ".."));
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(HasNetns(folder, "cni-1")) << "the folder is not mounted";
}

}  // namespace
}  // namespace berth::node
