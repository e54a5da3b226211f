// SPDX-License-Identifier: Apache-2.0
// Marks of DELs: a mark stays for eleven minutes, even if somebody sets the host's clock.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cni/attachment.h"
#include "node/node_directory.h"

namespace berth::node {
namespace {

constexpr BootNanos kMinute = 60'000'000'000;

class DeletedMarks : public testing::Test {
 protected:
  ~DeletedMarks() override { std::filesystem::remove_all(path_); }

  static ipam::Attachment Of(const std::string& container) { return cni::MakeAttachment("net", container, "eth0"); }
  void Mark(const std::string& container, BootNanos age = 0) const {
    ASSERT_TRUE(directory_->MarkDeleted(Of(container), BootTimeNow() - age).has_value());
  }
  [[nodiscard]] std::string FileOf(const std::string& container) const {
    return directory_->path() + "/deleted/" + Of(container);
  }
  [[nodiscard]] bool IsMarked(const std::string& container) const { return std::filesystem::exists(FileOf(container)); }
  void NoteForgotten(const std::string& text) const { std::ofstream(directory_->path() + "/forgot") << text; }
  void SetFileTime(const std::string& path, std::chrono::hours from_now) const {
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + from_now);
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("berth-marks-test." + std::to_string(getpid()));
  Expected<NodeDirectory> directory_ = NodeDirectory::Open(path_, "n1", "https://api");
};

struct StampCase {
  const char* name;
  BootNanos age;  // age of the last cleaning of the marks
  bool looks_again;
};

class ForgetStamp : public DeletedMarks, public testing::WithParamInterface<StampCase> {};

TEST_P(ForgetStamp, DecidesWhetherOldMarksAreRemoved) {
  NoteForgotten(std::to_string(BootTimeNow()));
  Mark("old", 12 * kMinute);
  NoteForgotten(std::to_string(BootTimeNow() - GetParam().age));
  Mark("new");
  EXPECT_EQ(IsMarked("old"), !GetParam().looks_again);
}

INSTANTIATE_TEST_SUITE_P(Table, ForgetStamp,
                         testing::Values(StampCase{"JustNow", 0, false}, StampCase{"TwoMinutesAgo", 2 * kMinute, true},
                                         StampCase{"BeforeAReboot", -60 * kMinute, true}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(DeletedMarks, AreForgottenEvenIfTheClockWasSetBack) {
  NoteForgotten(std::to_string(BootTimeNow() - 2 * kMinute));
  SetFileTime(directory_->path() + "/forgot", std::chrono::hours(24 * 365));
  std::ofstream(FileOf("old")) << BootTimeNow() - 12 * kMinute;
  SetFileTime(FileOf("old"), std::chrono::hours(24 * 365));
  Mark("new");
  EXPECT_FALSE(IsMarked("old"));
}

// A full disk needs the room of the old marks.
TEST_F(DeletedMarks, AreForgottenEvenIfTheTimeOfThatCannotBeWritten) {
  std::filesystem::create_directories(directory_->path() + "/forgot/no-file");
  std::ofstream(FileOf("old")) << BootTimeNow() - 12 * kMinute;
  Mark("new");
  EXPECT_FALSE(IsMarked("old"));
}

TEST_F(DeletedMarks, StayEvenIfTheClockWasSetForward) {
  std::ofstream(FileOf("young")) << BootTimeNow() - 10 * kMinute;
  SetFileTime(FileOf("young"), std::chrono::hours(-24 * 365));
  Mark("new");
  EXPECT_TRUE(IsMarked("young"));
}

TEST_F(DeletedMarks, AreForgottenIfTheyHaveNoPastTime) {
  std::ofstream(FileOf("odd")) << "nonsense";
  std::ofstream(FileOf("ahead")) << BootTimeNow() + 60 * kMinute;
  Mark("new");
  EXPECT_FALSE(IsMarked("odd"));
  EXPECT_FALSE(IsMarked("ahead"));
}

TEST_F(DeletedMarks, CleaningLeavesOtherFilesAlone) {
  std::ofstream(directory_->path() + "/deleted/hostname") << "nonsense";
  Mark("new");
  EXPECT_TRUE(std::filesystem::exists(directory_->path() + "/deleted/hostname"));
}

TEST_F(DeletedMarks, StayForAsLongAsAnAddMayTake) {
  Mark("c1", 10 * kMinute);
  EXPECT_TRUE(directory_->DeletedAt(Of("c1"))->has_value());
}

}  // namespace
}  // namespace berth::node
