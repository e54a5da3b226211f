// SPDX-License-Identifier: Apache-2.0
// Version: the list, exact comparison, and the two answers that need no configuration.
#include "cni/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::cni {
namespace {

TEST(Version, EveryVersionIsFoundByItsName) {
  for (const Version version : kVersions) EXPECT_EQ(FindVersion(ToString(version)), version);
}

TEST(Version, TextIsMatchedExactly) {
  for (const char* text : {"", "1", "1.1", "0.3", "1.1.0 ", " 1.1.0", "v1.1.0", "1.1.00", "2.0.0", "abc"}) {
    EXPECT_EQ(FindVersion(text), std::nullopt) << text;
  }
}

TEST(Version, AnswerNamesTheNewestAndAllSeven) {
  const auto answer = nlohmann::json::parse(VersionAnswer());
  EXPECT_EQ(answer["cniVersion"], "1.1.0");
  EXPECT_THAT(answer["supportedVersions"],
              testing::ElementsAre("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"));
}

TEST(Version, AboutTextNamesTheProgramAndTheVersions) {
  EXPECT_THAT(AboutText("berth"), testing::StartsWith("berth: "));
  EXPECT_THAT(AboutText("berth"), testing::HasSubstr("0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"));
}

}  // namespace
}  // namespace berth::cni
