// SPDX-License-Identifier: Apache-2.0
// MachineName: a machine keeps its name, and two machines have different names.
#include "node/machine_name.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace berth::node {
namespace {

class MachineNameTest : public testing::Test {
 protected:
  MachineNameTest() {
    for (const char* const machine : {"/a", "/b"}) std::filesystem::create_directories(root_ + machine);
  }
  ~MachineNameTest() override { std::filesystem::remove_all(root_); }

  [[nodiscard]] Expected<std::string> NameOf(const std::string& machine) const {
    return MachineName(Folder::Open(root_ + machine).value());
  }

  const std::string root_ =
      std::filesystem::temp_directory_path().string() + "/berth-machine-name-test." + std::to_string(getpid());
};

TEST_F(MachineNameTest, StaysAsItWasMade) {
  const auto name = NameOf("/a");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(NameOf("/a"), name);
}

TEST_F(MachineNameTest, IsAnotherOnAnotherMachine) { EXPECT_NE(*NameOf("/a"), *NameOf("/b")); }

TEST_F(MachineNameTest, IsMadeAnewIfItCannotBeRead) {
  std::ofstream(root_ + "/a/machine") << "../x";
  const auto name = NameOf("/a");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace berth::node
