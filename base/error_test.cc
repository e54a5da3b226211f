// SPDX-License-Identifier: Apache-2.0
// Error: the CNI code of each error code, because runtimes see only the CNI code.
#include "base/error.h"

#include <string>

#include <gtest/gtest.h>

namespace berth {
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
    {"NothingHeldIsHundredThree", ErrorCode::kNothingHeld, 103},
};
INSTANTIATE_TEST_SUITE_P(Table, ErrorCniCode, testing::ValuesIn(kCodeCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Error, WithinPutsTheContextBeforeTheMessage) {
  const Error error{.code = ErrorCode::kConflict, .message = "changed"};
  EXPECT_EQ(error.Within("claim block 10.55.0.0/26").message, "claim block 10.55.0.0/26: changed");
}

struct QuotedCase {
  const char* name;
  std::string_view foreign;
  std::string_view want;
};
class QuotedText : public testing::TestWithParam<QuotedCase> {};

TEST_P(QuotedText, IsPrintableAscii) { EXPECT_EQ(Quoted(GetParam().foreign), GetParam().want); }

constexpr QuotedCase kQuotedCases[] = {
    {"Empty", "", R"("")"},
    {"Plain", "10.55.0.0/26", R"("10.55.0.0/26")"},
    {"QuoteAndBackslash", R"(a"b\c)", R"("a\"b\\c")"},
    {"ControlBytes", std::string_view("\n\x1b\0\x7f", 4), R"("\x0a\x1b\x00\x7f")"},
    {"NotUtf8", "\xff", R"("\xff")"},
};
INSTANTIATE_TEST_SUITE_P(Table, QuotedText, testing::ValuesIn(kQuotedCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Quoted, CutsAfter200Bytes) {
  EXPECT_EQ(Quoted(std::string(201, 'a')), "\"" + std::string(200, 'a') + "...\"");
  EXPECT_EQ(Quoted(std::string(200, 'a')), "\"" + std::string(200, 'a') + "\"");
}

}  // namespace
}  // namespace berth
