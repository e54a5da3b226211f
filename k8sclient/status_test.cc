// SPDX-License-Identifier: Apache-2.0
// The table of errors for each answer, for reads and for writes.
#include "k8sclient/status.h"

#include <string>

#include <gtest/gtest.h>

namespace berth::k8sclient {
namespace {

using std::chrono::seconds;

constexpr char kNotFoundObject[] =
    R"({"kind":"Status","reason":"NotFound","message":"ipblocks \"a\" not found","details":{"name":"a","kind":"ipblocks"}})";
constexpr char kNotFoundKind[] =
    R"({"kind":"Status","reason":"NotFound","message":"the server could not find the requested resource","details":{}})";
constexpr char kAlreadyExists[] = R"({"kind":"Status","reason":"AlreadyExists","details":{"name":"a"}})";
constexpr char kTooLarge[] =
    R"({"kind":"Status","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}})";

struct AnswerCase {
  const char* name;
  Method method;
  int status;
  bool retry_after;
  const char* body;
  ErrorCode want;
};
class StatusTable : public ::testing::TestWithParam<AnswerCase> {};

TEST_P(StatusTable, SaysWhatTheCallerCanDo) {
  const AnswerCase& c = GetParam();
  Response response{.status = c.status, .body = c.body};
  if (c.retry_after) response.retry_after = seconds(3);
  const Error error = ToError({.method = c.method, .path = "/a"}, response);
  EXPECT_EQ(ToString(error.code), ToString(c.want)) << error.message;
}

constexpr AnswerCase kAnswerCases[] = {
    {"BadRequest", Method::kPatch, 400, false, "", ErrorCode::kInvalid},
    {"Unauthorized", Method::kGet, 401, false, "", ErrorCode::kUnauthenticated},
    {"Forbidden", Method::kPatch, 403, false, "", ErrorCode::kForbidden},
    {"ObjectMissing", Method::kGet, 404, false, kNotFoundObject, ErrorCode::kNotFound},
    {"KindMissing", Method::kGet, 404, false, kNotFoundKind, ErrorCode::kNotInstalled},
    {"GroupMissing", Method::kPost, 404, false, "404 page not found\n", ErrorCode::kNotInstalled},
    {"MethodNotAllowed", Method::kPost, 405, false, "", ErrorCode::kInternal},
    {"RequestTimeoutOfARead", Method::kGet, 408, false, "", ErrorCode::kTimeout},
    {"RequestTimeoutOfAWrite", Method::kPost, 408, false, "", ErrorCode::kUnknownOutcome},
    {"Conflict", Method::kPatch, 409, false, R"({"kind":"Status","reason":"Conflict"})", ErrorCode::kConflict},
    {"ConflictWithoutABody", Method::kPatch, 409, false, "", ErrorCode::kConflict},
    {"NameTaken", Method::kPost, 409, false, kAlreadyExists, ErrorCode::kAlreadyExists},
    {"Gone", Method::kGet, 410, false, "", ErrorCode::kGone},
    {"TooLargeARequest", Method::kPatch, 413, false, "", ErrorCode::kInvalid},
    {"WrongMediaType", Method::kPatch, 415, false, "", ErrorCode::kInternal},
    {"Invalid", Method::kPost, 422, false, "", ErrorCode::kInvalid},
    {"FlowControlOfARead", Method::kGet, 429, true, "", ErrorCode::kUnavailable},
    {"FlowControlOfAWrite", Method::kPatch, 429, true, "", ErrorCode::kUnavailable},
    {"FlowControlWithoutATime", Method::kPatch, 429, false, "", ErrorCode::kUnavailable},
    {"ServerErrorOfARead", Method::kGet, 500, false, "", ErrorCode::kUnavailable},
    {"ServerErrorOfAWrite", Method::kPatch, 500, false, "", ErrorCode::kUnknownOutcome},
    {"ServerErrorOfAWriteWithATime", Method::kPatch, 500, true, "", ErrorCode::kUnknownOutcome},
    {"BadGatewayOfAWrite", Method::kPost, 502, false, "", ErrorCode::kUnknownOutcome},
    {"OverloadRefusesAWrite", Method::kPost, 503, true, "", ErrorCode::kUnavailable},
    {"OverloadWithoutATimeLeavesAWriteOpen", Method::kPost, 503, false, "", ErrorCode::kUnknownOutcome},
    {"OverloadRefusesARead", Method::kGet, 503, false, "", ErrorCode::kUnavailable},
    {"GatewayTimeoutOfAWrite", Method::kDelete, 504, false, "", ErrorCode::kUnknownOutcome},
    {"GatewayTimeoutOfARead", Method::kGet, 504, false, "", ErrorCode::kTimeout},
    {"VersionNotReached", Method::kGet, 504, true, kTooLarge, ErrorCode::kGone},
    {"Redirect", Method::kGet, 302, false, "", ErrorCode::kInternal},
};
INSTANTIATE_TEST_SUITE_P(Table, StatusTable, ::testing::ValuesIn(kAnswerCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Status, KeepsTheServersWordsAndNamesTheFields) {
  const Error error = ToError(
      {.method = Method::kPost, .path = "/ippools"},
      {.status = 422,
       .body =
           R"({"kind":"Status","message":"spec.subnet: not canonical","details":{"causes":[{"field":"spec.subnet"},{"field":"spec.space"}]}})"});
  EXPECT_EQ(error.message, "POST /ippools: 422 spec.subnet: not canonical");
  EXPECT_EQ(error.details, "fields: spec.subnet, spec.space");
}

TEST(Status, QuotesABodyThatIsNoStatusOnOneLineAndCut) {
  const Error error = ToError({.path = "/a"}, {.status = 502, .body = "<html>\n" + std::string(5000, 'x')});
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
  EXPECT_LT(error.message.size(), 700U);
  EXPECT_NE(error.message.find("502 <html>"), std::string::npos);
}

TEST(Status, TellsHowLongTheServerAsksToWait) {
  const Error error = ToError({.path = "/a"}, {.status = 429, .retry_after = seconds(3)});
  EXPECT_EQ(error.retry_after, seconds(3));
}

struct RepeatCase {
  const char* name;
  Method method;
  int status;
  bool retry_after;
  const char* body;
  bool want;
};
class RepeatTable : public ::testing::TestWithParam<RepeatCase> {};

TEST_P(RepeatTable, OnlyReadsAndUnexecutedWritesAreRepeated) {
  const RepeatCase& c = GetParam();
  Response response{.status = c.status, .body = c.body};
  if (c.retry_after) response.retry_after = seconds(1);
  EXPECT_EQ(MayRepeat({.method = c.method, .path = "/a"}, response), c.want);
}

constexpr RepeatCase kRepeatCases[] = {
    {"RefusedWrite", Method::kPatch, 429, true, "", true},
    {"RefusedWriteWithoutATime", Method::kPatch, 429, false, "", false},
    {"WriteAtAServerThatShutsDown", Method::kPatch, 503, true, "", true},
    {"WriteThatFailedInside", Method::kPatch, 500, true, "", false},
    {"WriteThatTimedOut", Method::kPatch, 504, true, "", false},
    {"ReadThatFailedInside", Method::kGet, 500, true, "", true},
    {"ReadThatFailedInsideWithoutATime", Method::kGet, 500, false, "", false},
    {"ReadAtAVersionNotReached", Method::kGet, 504, true, kTooLarge, false},
    {"Success", Method::kGet, 200, true, "", false},
    {"NotFound", Method::kGet, 404, true, "", false},
};
INSTANTIATE_TEST_SUITE_P(Table, RepeatTable, ::testing::ValuesIn(kRepeatCases),
                         [](const auto& c) { return std::string(c.param.name); });

struct BodyCase {
  const char* name;
  const char* body;
};
class StatusBody : public ::testing::TestWithParam<BodyCase> {};

TEST_P(StatusBody, ThatIsNoStatusIsTakenAsEmpty) {
  const Status status = ParseStatus(GetParam().body);
  EXPECT_EQ(status.reason + status.message + status.name, "");
}

constexpr BodyCase kBodyCases[] = {
    {"Empty", ""},
    {"Text", "404 page not found"},
    {"AnotherKind", R"({"kind":"Pod","reason":"x","message":"y"})"},
    {"WrongTypes", R"({"kind":"Status","reason":1,"message":[],"details":[]})"},
    {"WrongTypesInside", R"({"kind":"Status","details":{"name":{},"causes":[1,{"field":2}]}})"},
    {"CutOff", R"({"kind":"Status","reason":"Conf)"},
};
INSTANTIATE_TEST_SUITE_P(Table, StatusBody, ::testing::ValuesIn(kBodyCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
