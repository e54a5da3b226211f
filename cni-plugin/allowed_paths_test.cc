// SPDX-License-Identifier: Apache-2.0
// AllowedPaths: which paths the program accepts in a configuration that a tenant may have written.
#include "cni-plugin/allowed_paths.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/places.h"
#include "cni-plugin/berth_test_setup.h"

namespace berth::cni_plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

class AllowedPaths : public testing::Test {
 protected:
  AllowedPaths() {
    std::string pattern = fs::temp_directory_path() / "berth-paths-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    // Run a copy, as on a node, so that a file of allowed paths in the build folder has no effect.
    fs::copy_file(BuildDir() + "/bin/berth", folder_ / "berth");
  }
  ~AllowedPaths() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path Allow(const std::string& text, fs::perms perms = fs::perms(0644)) const {
    const fs::path file = folder_ / "berth.allowed-paths";
    std::ofstream(file) << text;
    fs::permissions(file, perms);
    return file;
  }
  // Runs a STATUS whose configuration names `socket`, on which no agent listens.
  [[nodiscard]] PluginOutcome Status(const fs::path& socket) const {
    cni_testing::PluginCall call = BerthCall("STATUS", Configuration(socket, R"(,"timeoutSeconds":1)"));
    call.binary = folder_ / "berth";
    return RunPlugin(std::move(call));
  }
  static std::string MessageOf(const PluginOutcome& finished) {
    const auto error = nlohmann::json::parse(finished.out, nullptr, false);
    return error.is_object() ? error.value("msg", "") + "; " + error.value("details", "") : finished.out;
  }

  fs::path folder_;
};

TEST_F(AllowedPaths, ASocketInAnotherFolderIsRefusedWithTheRemedy) {
  const std::string message = MessageOf(Status(folder_ / "s"));
  EXPECT_THAT(message, HasSubstr("ipam.agentSocket"));
  EXPECT_THAT(message, HasSubstr((folder_ / "s").string()));
  EXPECT_THAT(message, HasSubstr("berth.allowed-paths beside the program"));
}

TEST_F(AllowedPaths, AFileBesideTheProgramAllowsASocketInAnotherFolder) {
  static_cast<void>(Allow("agentSocket " + folder_.string() + "/\nstateDir " + folder_.string() + "/\n"));
  EXPECT_THAT(MessageOf(Status(folder_ / "s")), Not(HasSubstr("is not a path")));
}

TEST_F(AllowedPaths, AFileThatOthersMayWriteAllowsNothing) {
  static_cast<void>(
      Allow("agentSocket " + folder_.string() + "/\nstateDir " + folder_.string() + "/\n", fs::perms(0666)));
  const PluginOutcome finished = Status(folder_ / "s");
  EXPECT_THAT(MessageOf(finished), HasSubstr("is not a path"));
  EXPECT_THAT(finished.err, HasSubstr("chmod 644"));
}

TEST_F(AllowedPaths, APathThroughALinkIsRefused) {
  static_cast<void>(Allow("agentSocket " + folder_.string() + "/\nstateDir " + folder_.string() + "/\n"));
  fs::create_directory(folder_ / "real");
  fs::create_directory_symlink(folder_ / "real", folder_ / "link");
  fs::create_symlink("/etc/shadow", folder_ / "s");
  EXPECT_THAT(MessageOf(Status(folder_ / "link/s")), HasSubstr("symbolic link"));
  EXPECT_THAT(MessageOf(Status(folder_ / "s")), HasSubstr("symbolic link"));
  EXPECT_THAT(MessageOf(Status(folder_ / "real/../s")), HasSubstr(".."));
}

TEST_F(AllowedPaths, LinksAboveTheFolderOfTheRuleAreAllowed) {
  fs::create_directory(folder_ / "real");
  fs::create_directory(folder_ / "real/berth");
  fs::create_directory_symlink(folder_ / "real", folder_ / "link");
  const std::string below_link = (folder_ / "link/berth/").string();
  EXPECT_FALSE(HasLinkBelow(below_link, below_link + "x")) << "what lies above is the node's";
  EXPECT_TRUE(HasLinkBelow((folder_ / "link/").string(), (folder_ / "link/x").string())) << "the folder itself";
  EXPECT_TRUE(HasLinkBelow(folder_.string() + "/", below_link + "x"));
  EXPECT_FALSE(HasLinkBelow((folder_ / "link/x").string(), (folder_ / "link/x").string())) << "one named file";
}

TEST_F(AllowedPaths, RulesAreReadFromARegularFile) {
  const fs::path file = Allow("logFile /a/\n# logFile /b/\nlogFile /c\n");
  EXPECT_THAT(ReadRules(file, "logFile").value(), ElementsAre("/a/", "/c"));
  EXPECT_THAT(ReadRules(folder_ / "missing", "logFile").value(), testing::IsEmpty());
  EXPECT_FALSE(ReadRules(folder_, "logFile").has_value());
  fs::create_symlink(file, folder_ / "link");
  EXPECT_FALSE(ReadRules(folder_ / "link", "logFile").has_value());
}

// A path that is cut off behind a folder would allow the whole folder.
TEST_F(AllowedPaths, AFileThatIsTooLargeHasNoEffect) {
  const fs::path file = Allow("logFile /c\n" + std::string(std::size_t{64} << 10, '#'));
  const auto rules = ReadRules(file, "logFile");
  ASSERT_FALSE(rules.has_value());
  EXPECT_THAT(rules.error().message, HasSubstr("has no effect: it is larger than 64 KiB"));
}

}  // namespace
}  // namespace berth::cni_plugin
