// SPDX-License-Identifier: Apache-2.0
// Tests Journal: what a later process finds in the file.
#include "agent/journal.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/disk_test_setup.h"

// Replaces the C library's function, to count syncs and to simulate a disk that fails.
int fdatasync(int descriptor) {
  ++berth::agent::TestDisk::syncs;
  if (!berth::agent::TestDisk::syncs_fail) return static_cast<int>(syscall(SYS_fdatasync, descriptor));
  errno = EIO;
  return -1;
}

// Replaces the C library's function, to simulate a full disk.
ssize_t write(int descriptor, const void* data, size_t size) {
  using berth::agent::TestDisk;
  if (TestDisk::is_full || TestDisk::is_run_full) {
    std::error_code failed;
    const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), failed);
    const auto is_in = [&path](const char* folder) { return path.string().find(folder) != std::string::npos; };
    if ((TestDisk::is_full && (is_in("/state/nodes/") || is_in("/berth-journal-test."))) ||
        (TestDisk::is_run_full && is_in("/run/nodes/"))) {
      errno = ENOSPC;
      return -1;
    }
  }
  return static_cast<ssize_t>(syscall(SYS_write, descriptor, data, size));
}

namespace berth::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class JournalTest : public testing::Test {
 protected:
  JournalTest() : path_(std::filesystem::temp_directory_path() / ("berth-journal-test." + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~JournalTest() override { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::unique_ptr<Journal> Open() const {
    auto journal = Journal::Open(node::Folder::Open(path_).value());
    EXPECT_TRUE(journal.has_value());
    return *std::move(journal);
  }
  static ipam::Attachment Number(int number) {
    const std::string digits = std::to_string(number);
    return "0123456789ab-" + std::string(16 - digits.size(), '0') + digits;
  }
  void Write(const std::string& text) const { std::ofstream(path_ / "journal") << text; }

  const std::filesystem::path path_;
};

TEST_F(JournalTest, ALaterProcessFindsWhatIsPending) {
  ASSERT_TRUE(Open()->Add(Number(1), node::FileSync::kNo).has_value());
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(1)));
}

TEST_F(JournalTest, ALaterProcessDoesNotFindRemovedDels) {
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Add(Number(1), node::FileSync::kYes).has_value());
    ASSERT_TRUE(journal->Remove(Number(1)).has_value());
  }
  EXPECT_THAT(Open()->Pending(), IsEmpty());
}

TEST_F(JournalTest, ALineThatWasCutOffIsDropped) {
  Write("+" + Number(1) + "\n+" + Number(2).substr(0, 10));
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(1)));
}

TEST_F(JournalTest, AFileWithManyLinesThatAreDoneIsLong) {
  const auto journal = Open();
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(journal->Add(Number(i), node::FileSync::kNo).has_value());
    ASSERT_TRUE(journal->Remove(Number(i)).has_value());
  }
  EXPECT_TRUE(journal->IsLong());
}

TEST_F(JournalTest, AFileThatIsWrittenAnewKeepsWhatIsPendingAndWhatComesAfter) {
  {
    const auto journal = Open();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(journal->Add(Number(i), node::FileSync::kNo).has_value());
    ASSERT_TRUE(journal->Remove(Number(1)).has_value());
    ASSERT_TRUE(journal->Compact().has_value());
    ASSERT_TRUE(journal->Add(Number(3), node::FileSync::kNo).has_value());
    ASSERT_TRUE(journal->Remove(Number(0)).has_value());
  }
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(2), Number(3)));
}

TEST_F(JournalTest, AFileThatIsWrittenAnewSurvivesAFullDisk) {
  {
    const auto journal = Open();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(journal->Add(Number(i), node::FileSync::kNo).has_value());
    ASSERT_TRUE(journal->Remove(Number(1)).has_value());
    ASSERT_TRUE(journal->Compact().has_value());
    TestDisk::is_full = true;
    EXPECT_FALSE(journal->Add(Number(3), node::FileSync::kNo).has_value());
    TestDisk::is_full = false;
    ASSERT_TRUE(journal->Add(Number(4), node::FileSync::kNo).has_value());
  }
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(0), Number(2), Number(4)));
}

TEST_F(JournalTest, AFileThatIsWrittenAnewIsShort) {
  const auto journal = Open();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(journal->Add(Number(i), node::FileSync::kNo).has_value());
  for (int i = 1; i < 100; ++i) ASSERT_TRUE(journal->Remove(Number(i)).has_value());
  ASSERT_TRUE(journal->Compact().has_value());
  EXPECT_EQ(std::filesystem::file_size(path_ / "journal"), Number(0).size() + 2);
}

// A block of the node is quarantined for weeks.
TEST_F(JournalTest, AFileOfMoreThanFourMebibytesIsRead) {
  constexpr int kMany = 140'000;
  std::string text;
  for (int i = 0; i < kMany; ++i) text += "+" + Number(i) + "\n";
  Write(text);
  EXPECT_EQ(Open()->Size(), static_cast<std::size_t>(kMany));
}

// Otherwise a later process would write the DEL again, and free the address of a newer container with the same
// attachment.
TEST_F(JournalTest, ADelWhoseRemovalCannotBeWrittenStaysPending) {
  const auto journal = Open();
  ASSERT_TRUE(journal->Add(Number(1), node::FileSync::kNo).has_value());
  std::filesystem::remove_all(path_);
  ASSERT_FALSE(journal->Compact().has_value());
  EXPECT_FALSE(journal->Remove(Number(1)).has_value());
  EXPECT_TRUE(journal->Contains(Number(1)));
}

// In each pass the maintenance loop replaces a journal that is long, or that takes no more lines after a full disk.
TEST_F(JournalTest, AJournalWhoseFileCouldNotBeWrittenAnewIsLongAndTakesLinesAgainLater) {
  const auto journal = Open();
  ASSERT_TRUE(journal->Add(Number(1), node::FileSync::kNo).has_value());
  TestDisk::syncs_fail = true;
  EXPECT_FALSE(journal->Compact().has_value());
  TestDisk::syncs_fail = false;
  EXPECT_FALSE(journal->Add(Number(2), node::FileSync::kNo).has_value());
  ASSERT_TRUE(journal->IsLong());
  ASSERT_TRUE(journal->Compact().has_value());
  EXPECT_TRUE(journal->Add(Number(2), node::FileSync::kNo).has_value());
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(1), Number(2)));
}

TEST_F(JournalTest, AJournalIsOpenedOnAFullDiskAndTakesLinesAgainLater) {
  ASSERT_TRUE(Open()->Add(Number(1), node::FileSync::kYes).has_value());
  TestDisk::is_full = true;
  const auto journal = Open();
  EXPECT_FALSE(journal->Add(Number(2), node::FileSync::kNo).has_value());
  EXPECT_THAT(journal->Pending(), ElementsAre(Number(1)));
  TestDisk::is_full = false;
  ASSERT_TRUE(journal->IsLong());
  ASSERT_TRUE(journal->Compact().has_value());
  EXPECT_TRUE(journal->Add(Number(2), node::FileSync::kNo).has_value());
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(1), Number(2)));
}

// The runtime sends the DEL again; after that nothing of the first DEL may be left.
TEST_F(JournalTest, ADelThatCouldNotBeSyncedIsPendingAndCanBeRemoved) {
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Add(Number(1), node::FileSync::kNo).has_value());
    TestDisk::syncs_fail = true;
    EXPECT_FALSE(journal->Add(Number(2), node::FileSync::kYes).has_value());
    TestDisk::syncs_fail = false;
    ASSERT_TRUE(journal->Remove(Number(2)).has_value());
  }
  EXPECT_THAT(Open()->Pending(), ElementsAre(Number(1)));
}

TEST_F(JournalTest, AFileThatCannotBeReadIsAnError) {
  std::filesystem::create_directory(path_ / "journal");
  EXPECT_EQ(Journal::Open(node::Folder::Open(path_).value()).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace berth::agent
