// SPDX-License-Identifier: Apache-2.0
// Each script of sim/scripts/ has the output that is written in it. BERTH_REWRITE=1 writes the output into the scripts.
#include "sim/script.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "base/places.h"
#include "sim/script_world.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

std::vector<std::filesystem::path> AllScripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/sim/scripts")) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

std::string TextOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The script with its output, or the error.
std::string Shown(const std::string& name, const std::string& text, const std::string& rewritten = {}) {
  return InChild([&] {
    spdlog::set_level(spdlog::level::off);
    const auto shown = RunScript(name, text, /*is_told=*/false);
    if (shown && !rewritten.empty()) std::ofstream(rewritten) << *shown;
    return shown ? *shown : shown.error().message;
  });
}

class Scripts : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Scripts, ShowWhatStandsInThem) {
  const std::string text = TextOf(GetParam());
  const bool is_rewritten = std::getenv("BERTH_REWRITE") != nullptr;
  const std::string shown = Shown(GetParam().filename(), text, is_rewritten ? GetParam().string() : "");
  EXPECT_EQ(text, shown);
  EXPECT_FALSE(shown.contains("BROKEN"));
}

INSTANTIATE_TEST_SUITE_P(Sim, Scripts, testing::ValuesIn(AllScripts()), [](const auto& one) {
  std::string name = one.param.stem();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(Script, IsReadAndWrittenWithoutAChange) {
  const std::string text = "# Why.\n\ncontroller\nwait 3 seconds\n    n1 shows 5\n    n1 shows 6\n# The end.\n";
  const auto script = ParseScript(text);
  ASSERT_TRUE(script.has_value());
  ASSERT_EQ(script->steps.size(), 2U);
  EXPECT_EQ(script->steps[1].line, 4);
  EXPECT_EQ(script->steps[1].seen, (std::vector<std::string>{"n1 shows 5", "n1 shows 6"}));
  EXPECT_EQ(ToText(*script), text);
}

TEST(Script, MayNotHaveOutputBeforeItsFirstCommand) {
  EXPECT_EQ(ParseScript("# Why.\n    n1 shows 5\n").error().message,
            "2: no command stands right above this line, which starts with a blank");
}

TEST(Script, MatchesACommandWithItsForm) {
  EXPECT_EQ(Match("add POD on MACHINE", "add a  on n1"), (Words{{"POD", "a"}, {"MACHINE", "n1"}}));
  EXPECT_EQ(Match("wait until EVENT", "wait until n1 shows 5"), (Words{{"EVENT", "n1 shows 5"}}));
  for (const char* const other : {"add a", "add a to n1", "add a on n1 now", ""}) {
    EXPECT_EQ(Match("add POD on MACHINE", other), std::nullopt) << other;
  }
}

TEST(Script, ReportsALineThatIsNoCommandAndListsAllCommands) {
  const std::string wrong = Shown("x.txt", "# Why.\ncontroller\nwait a while\n");
  EXPECT_TRUE(wrong.starts_with("x.txt:3: \"wait a while\" is no command. Commands are:\n")) << wrong;
  EXPECT_TRUE(wrong.contains("\n    wait COUNT seconds\n")) << wrong;
}

TEST(Script, ReportsALineThatNamesAMissingMachine) {
  EXPECT_EQ(Shown("x.txt", "add a on n1\n"), "x.txt:1: add a on n1: there is no machine n1");
}

}  // namespace
}  // namespace berth::sim
