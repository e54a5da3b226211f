// SPDX-License-Identifier: Apache-2.0
// Folder: replaces files as a whole, and touches nothing outside the folder, whatever is in it. MachineName: a machine
// keeps its name, and two machines have different names.
#include "node/folder.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::node {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string pattern = "/tmp/berth-folder-test-XXXXXX";
    base_ = mkdtemp(pattern.data());
    fs::create_directory(base_ + "/outside");
    std::ofstream(base_ + "/outside/file") << "kept";
  }
  ~FolderTest() override { fs::remove_all(base_); }

  [[nodiscard]] Folder Open() const { return Folder::Open(base_ + "/run/berth").value(); }
  [[nodiscard]] bool OutsideIsAsItWas() const {
    std::string text;
    std::ifstream(base_ + "/outside/file") >> text;
    return text == "kept" && std::distance(fs::directory_iterator(base_ + "/outside"), fs::directory_iterator()) == 1;
  }

  std::string base_;
};

TEST_F(FolderTest, IsCreatedWithItsParentFolders) {
  ASSERT_TRUE(Open().Write("a", "text"));
  EXPECT_EQ(Open().Read("a"), "text");
  EXPECT_EQ(Open().Sub("sub")->path(), base_ + "/run/berth/sub");
  EXPECT_TRUE(fs::is_directory(base_ + "/run/berth/sub"));
}

TEST_F(FolderTest, AFileIsReplacedAsAWhole) {
  const Folder folder = Open();
  ASSERT_TRUE(folder.Write("a", "one"));
  const auto before = folder.OpenFile("a", O_RDONLY);
  ASSERT_TRUE(folder.Write("a", "two", FileSync::kYes));
  EXPECT_EQ(folder.Read("a"), "two");
  std::array<char, 3> text{};
  ASSERT_EQ(read(before->descriptor(), text.data(), text.size()), 3);
  EXPECT_EQ(std::string(text.data(), text.size()), "one");
  EXPECT_THAT(folder.Names().value(), ElementsAre("a"));
}

TEST_F(FolderTest, NamesLeavesOutTemporaryFiles) {
  std::ofstream(Open().PathOf(".part.0123456789ab.1")) << "half";
  EXPECT_THAT(Open().Names().value(), IsEmpty());
}

TEST_F(FolderTest, NamesIncludesFilesOfBlocksInASpaceNamedPart) {
  ASSERT_TRUE(Open().Write("0123.part.10.55.0.0-26", "intent"));
  EXPECT_THAT(Open().Names().value(), ElementsAre("0123.part.10.55.0.0-26"));
}

TEST_F(FolderTest, ReadDoesNotWaitForAPipeInPlaceOfAFile) {
  ASSERT_EQ(mkfifo(Open().PathOf("mode").c_str(), 0600), 0);
  EXPECT_EQ(Open().Read("mode").value_or(""), "");
}

TEST_F(FolderTest, RemoveSucceedsForAMissingFile) {
  ASSERT_TRUE(Open().Write("a", "text"));
  EXPECT_TRUE(Open().Remove("a"));
  EXPECT_TRUE(Open().Remove("a"));
  EXPECT_FALSE(Open().Read("a").has_value());
}

TEST_F(FolderTest, AFolderThatIsALinkIsNotOpened) {
  fs::create_directories(base_ + "/run/berth");
  fs::create_directory_symlink(base_ + "/outside", base_ + "/run/berth/deleted");
  const auto sub = Open().Sub("deleted");
  ASSERT_FALSE(sub.has_value());
  EXPECT_THAT(sub.error().message, HasSubstr("/run/berth/deleted"));
  EXPECT_FALSE(Folder::Open(base_ + "/run/berth/deleted").has_value());
  EXPECT_TRUE(OutsideIsAsItWas());
}

TEST_F(FolderTest, AnOpenFolderStaysTheSameIfALinkReplacesItsPath) {
  const Folder sub = Open().Sub("deleted").value();
  ASSERT_TRUE(sub.Write("file", "ours"));
  fs::rename(base_ + "/run/berth/deleted", base_ + "/moved");
  fs::create_directory_symlink(base_ + "/outside", base_ + "/run/berth/deleted");
  EXPECT_TRUE(sub.Remove("file"));
  EXPECT_TRUE(sub.Write("other", "ours"));
  EXPECT_THAT(sub.Names().value(), ElementsAre("other"));
  EXPECT_TRUE(OutsideIsAsItWas());
}

TEST_F(FolderTest, AFileThatIsALinkIsNeitherReadNorWrittenThrough) {
  const Folder folder = Open();
  fs::create_symlink(base_ + "/outside/file", folder.PathOf("a"));
  EXPECT_FALSE(folder.Read("a").has_value());
  EXPECT_FALSE(folder.OpenFile("a", O_RDWR | O_CREAT).has_value());
  EXPECT_TRUE(folder.Write("a", "in place of the link"));
  EXPECT_EQ(folder.Read("a"), "in place of the link");
  EXPECT_TRUE(OutsideIsAsItWas());
}

TEST_F(FolderTest, RemovesALinkAndNotItsTarget) {
  const Folder folder = Open();
  fs::create_symlink(base_ + "/outside/file", folder.PathOf("a"));
  EXPECT_TRUE(folder.Remove("a"));
  EXPECT_TRUE(OutsideIsAsItWas());
}

class InvalidNames : public FolderTest, public testing::WithParamInterface<const char*> {};

TEST_P(InvalidNames, AreRefused) {
  const Folder folder = Open();
  EXPECT_FALSE(folder.Read(GetParam()).has_value());
  EXPECT_FALSE(folder.OpenFile(GetParam(), O_RDWR | O_CREAT).has_value());
  EXPECT_FALSE(folder.Write(GetParam(), "text").has_value());
  EXPECT_FALSE(folder.Remove(GetParam()).has_value());
  EXPECT_FALSE(folder.Sub(GetParam()).has_value());
  EXPECT_TRUE(OutsideIsAsItWas());
}

INSTANTIATE_TEST_SUITE_P(Table, InvalidNames,
                         testing::Values("", ".", "..", "../../outside/file", "/etc/hostname", "a/b"),
                         [](const auto& c) { return "Number" + std::to_string(c.index); });

class MachineNameTest : public FolderTest {
 protected:
  [[nodiscard]] Expected<std::string> NameOf(const std::string& machine) const {
    return MachineName(Folder::Open(base_ + machine).value());
  }
};

TEST_F(MachineNameTest, StaysAsItWasMade) {
  const auto name = NameOf("/a");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(NameOf("/a"), name);
}

TEST_F(MachineNameTest, IsAnotherOnAnotherMachine) { EXPECT_NE(*NameOf("/a"), *NameOf("/b")); }

TEST_F(MachineNameTest, IsMadeAnewIfItCannotBeRead) {
  fs::create_directory(base_ + "/a");
  std::ofstream(base_ + "/a/machine") << "../x";
  const auto name = NameOf("/a");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace berth::node
