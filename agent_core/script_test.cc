// SPDX-License-Identifier: Apache-2.0
// Runs each script of agent_core/testdata/, and compares its results with the script. BERTH_REWRITE=1 writes the
// results into the scripts.
//
// A script has one command per line. The lines from "----" to the next empty line are the results of the commands
// above.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "agent_core/script_world_test_setup.h"
#include "base/places.h"

namespace berth::agent_core {
namespace {

constexpr std::string_view kRule = "----";

std::string Rewritten(const std::string& text) {
  ScriptWorld world;
  std::istringstream in(text);
  std::string out;
  std::vector<std::string> seen;
  bool is_after_rule = false;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) is_after_rule = false;
    if (is_after_rule) continue;
    out += line + "\n";
    if (line == kRule) {
      is_after_rule = true;
      if (seen.empty()) seen.emplace_back("nothing follows");
      for (const std::string& one : seen) out += one + "\n";
      seen.clear();
    } else if (!line.empty() && !line.starts_with('#')) {
      std::ranges::move(world.Run(line), std::back_inserter(seen));
    }
  }
  for (const std::string& one : seen) out += "error: no line " + std::string(kRule) + " before: " + one + "\n";
  return out;
}

std::vector<std::filesystem::path> AllCoreScripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/agent_core/testdata")) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

class CoreScripts : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(CoreScripts, ShowWhatStandsInThem) {
  std::ifstream file(GetParam());
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_TRUE(text.starts_with("# ")) << "the first lines say what the script shows";
  const std::string shown = Rewritten(text);
  if (std::getenv("BERTH_REWRITE") != nullptr) std::ofstream(GetParam()) << shown;
  EXPECT_EQ(text, shown);
  EXPECT_FALSE(shown.contains("error: ")) << shown;
  EXPECT_FALSE(shown.contains("BROKEN: ")) << shown;
}

INSTANTIATE_TEST_SUITE_P(Core, CoreScripts, testing::ValuesIn(AllCoreScripts()), [](const auto& one) {
  std::string name = one.param.stem();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(CoreScript, NamesALineThatIsNoCommand) {
  EXPECT_EQ(Rewritten("dance\n----\n"), "dance\n----\nerror: \"dance\" is no command\n");
}

TEST(CoreScript, NamesWhatCannotBeDoneNow) {
  EXPECT_EQ(Rewritten("show\n----\n"), "show\n----\nerror: there is no block yet\n");
  EXPECT_EQ(Rewritten("block 10.55.0.0/29\nwritten\n----\n"),
            "block 10.55.0.0/29\nwritten\n----\nerror: no write is under way\n");
}

TEST(CoreScript, ReplacesWhatStoodUnderItsCommands) {
  EXPECT_EQ(Rewritten("block 10.55.0.0/29\n----\nsomething else\n\n# The end.\n"),
            "block 10.55.0.0/29\n----\nnothing follows\n\n# The end.\n");
}

}  // namespace
}  // namespace berth::agent_core
