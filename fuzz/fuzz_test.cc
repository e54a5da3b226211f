// SPDX-License-Identifier: Apache-2.0
// Runs each target with every input in corpus/, so that inputs that once broke a target do not break it again.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/places.h"
#include "fuzz/target.h"

namespace berth::fuzz {
namespace {

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, IsReadWithoutHarm) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceDir() + "/fuzz/corpus/" + std::string(GetParam().name))) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    GetParam().run(bytes);
    // Run the target with the bytes cut off at every length, too.
    for (std::size_t length = 0; length < bytes.size(); ++length) GetParam().run(bytes.substr(0, length));
    ++count;
  }
  EXPECT_GE(count, 2) << "a target without examples finds little";
}

INSTANTIATE_TEST_SUITE_P(Table, Corpus, testing::ValuesIn(AllTargets().begin(), AllTargets().end()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::fuzz
