// SPDX-License-Identifier: Apache-2.0
// Error: the CNI code that each error code becomes, since runtimes and people see nothing else of it.
#include "ipam/error.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::ipam {
namespace {

struct CodeCase {
  const char* name;
  ErrorCode code;
  std::uint32_t want;
};
class ErrorCniCode : public testing::TestWithParam<CodeCase> {};

TEST_P(ErrorCniCode, IsTheDocumentedOne) { EXPECT_EQ(CniCode(GetParam().code), GetParam().want); }

constexpr CodeCase kCodeCases[] = {
    {"VersionIsOne", ErrorCode::kIncompatibleVersion, 1},
    {"EnvironmentIsFour", ErrorCode::kEnvironment, 4},
    {"IoIsFive", ErrorCode::kIo, 5},
    {"DecodeIsSix", ErrorCode::kDecode, 6},
    {"UnknownUserIsSix", ErrorCode::kUnauthenticated, 6},
    {"InvalidIsSeven", ErrorCode::kInvalid, 7},
    {"MissingPoolIsSeven", ErrorCode::kNotFound, 7},
    {"OwnNetnsIsEight", ErrorCode::kInvalidNetns, 8},
    {"AwayIsEleven", ErrorCode::kUnavailable, 11},
    {"TimeOverIsEleven", ErrorCode::kTimeout, 11},
    {"UnknownOutcomeIsEleven", ErrorCode::kUnknownOutcome, 11},
    {"StatusIsFifty", ErrorCode::kNotReady, 50},
    {"ExhaustedIsHundred", ErrorCode::kExhausted, 100},
    {"TakenIsHundredOne", ErrorCode::kAddressTaken, 101},
    {"RbacIsHundredTwo", ErrorCode::kForbidden, 102},
    {"MissingCrdsAreHundredTwo", ErrorCode::kNotInstalled, 102},
};
INSTANTIATE_TEST_SUITE_P(Table, ErrorCniCode, testing::ValuesIn(kCodeCases), [](const auto& c) {
  return std::string(c.param.name);
});

TEST(Error, WithinPutsTheContextBeforeTheMessage) {
  const Error error{.code = ErrorCode::kConflict, .message = "changed"};
  EXPECT_EQ(error.Within("claim block 10.55.0.0/26").message, "claim block 10.55.0.0/26: changed");
}

}  // namespace
}  // namespace berth::ipam
