// SPDX-License-Identifier: Apache-2.0
// AuditLog: which requests count, and from which position of the log on.
#include "bench/audit_log.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

class AuditLogFile : public testing::Test {
 protected:
  ~AuditLogFile() override { std::filesystem::remove(path_); }
  void Write(const std::string& verb, const std::string& user_agent) const {
    std::ofstream file(path_, std::ios::app);
    file << R"({"kind":"Event","verb":")" << verb << R"(","userAgent":")" << user_agent << "\"}\n";
  }
  [[nodiscard]] std::string path() const { return path_; }

 private:
  const std::string path_ = testing::TempDir() + "audit." +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "." +
                            std::to_string(getpid());
};

TEST_F(AuditLogFile, CountsOneProgramsRequestsFromAPositionOn) {
  Write("patch", "berth-direct");
  const AuditLog log(path());
  const auto begin = log.End();
  ASSERT_TRUE(begin.has_value()) << begin.error().message;
  Write("patch", "berth-direct");
  Write("patch", "kubectl/v1.36");
  Write("list", "berth-direct/0.1");
  Write("watch", "berth-direct");
  EXPECT_EQ(log.CountSince(*begin, "berth-direct"), 2U);
}

TEST_F(AuditLogFile, MissingIsAnErrorWithTheRemedy) {
  const auto end = AuditLog(path()).End();
  ASSERT_FALSE(end.has_value());
  EXPECT_NE(end.error().details.find("--audit"), std::string::npos);
}

TEST(AuditLog, WithoutAPathNothingIsCounted) { EXPECT_EQ(AuditLog("").CountSince(0, "x"), 0U); }

}  // namespace
}  // namespace berth::bench
