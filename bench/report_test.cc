// SPDX-License-Identifier: Apache-2.0
// Report: what a run that times says, what a run that counts says, and that neither says what it has not measured.
#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::bench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct RequestGoalCase {
  const char* name;
  int callers;
  const char* contender;
  OpFigures ContenderFigures::* operation;
  double requests;
  const char* want;  // the whole verdict
};
class RequestGoal : public testing::TestWithParam<RequestGoalCase> {};

TEST_P(RequestGoal, IsReachedUpToItsBar) {
  const RequestGoalCase& c = GetParam();
  // The contender reaches its other goals.
  ContenderFigures figures{.name = c.contender, .add = {.requests = 0.001}, .del = {.requests = 0.001}};
  (figures.*c.operation).requests = c.requests;
  EXPECT_THAT(RequestGoals({{.callers = c.callers, .contenders = {figures}}}), HasSubstr(c.want));
}

constexpr auto kAdd = &ContenderFigures::add;
constexpr auto kDel = &ContenderFigures::del;
constexpr RequestGoalCase kRequestGoalCases[] = {
    {"AgentExactlyOne",
     1,
     kAgentName,
     kAdd,
     1,
     "  reached  berth         requests per ADD                       1.000   at most 1, 1 caller\n"},
    {"AgentLessThanOne",
     1,
     kAgentName,
     kAdd,
     0.25,
     "  reached  berth         requests per ADD                       0.250   at most 1, 1 caller\n"},
    {"AgentOneTooManyInAThousand",
     1,
     kAgentName,
     kAdd,
     1.001,
     "  MISSED   berth         requests per ADD                       1.001   at most 1, 1 caller\n"},
    {"AgentOfWhichNothingWasCounted",
     1,
     kAgentName,
     kAdd,
     0,
     "  MISSED   berth         requests per ADD                       0.000   at most 1, 1 caller\n"},
    {"AgentShared",
     32,
     kAgentName,
     kAdd,
     0.2,
     "  reached  berth         requests per ADD                       0.200   at most 0.2, 32 callers\n"},
    {"AgentSharedTooLittle",
     32,
     kAgentName,
     kAdd,
     0.21,
     "  MISSED   berth         requests per ADD                       0.210   at most 0.2, 32 callers\n"},
    {"DirectAdd",
     1,
     kDirectName,
     kAdd,
     3,
     "  reached  berth-direct  requests per ADD                       3.000   at most 3, 1 caller\n"},
    {"DirectAddTooMany",
     1,
     kDirectName,
     kAdd,
     3.01,
     "  MISSED   berth-direct  requests per ADD                       3.010   at most 3, 1 caller\n"},
    {"DirectDel",
     1,
     kDirectName,
     kDel,
     2,
     "  reached  berth-direct  requests per DEL                       2.000   at most 2, 1 caller\n"},
    {"DirectDelTooMany",
     1,
     kDirectName,
     kDel,
     2.01,
     "  MISSED   berth-direct  requests per DEL                       2.010   at most 2, 1 caller\n"},
};
INSTANTIATE_TEST_SUITE_P(Table, RequestGoal, testing::ValuesIn(kRequestGoalCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(RequestGoals, OfCallersThatNoGoalIsAboutAreNone) {
  EXPECT_THAT(RequestGoals({{.callers = 8, .contenders = {{.name = kAgentName, .add = {}, .del = {}}}}}), IsEmpty());
}

TEST(RequestTables, HaveAColumnPerNumberOfCallersAndADashForWhoWasNotMeasured) {
  const ContenderFigures alone{.name = kAgentName, .add = {.requests = 1}, .del = {.requests = 0.25}};
  const ContenderFigures shared{.name = kAgentName, .add = {.requests = 0.09}, .del = {.requests = 0.04}};
  const ContenderFigures raw{.name = kRawName, .add = {.requests = 1}, .del = {.requests = 1}};
  EXPECT_EQ(RequestTables({{.callers = 32, .contenders = {shared}}, {.callers = 1, .contenders = {alone, raw}}}),
            "  ADD               32 callers      1 caller\n"
            "  berth                  0.090         1.000\n"
            "  raw PATCH                  -         1.000\n"
            "  DEL               32 callers      1 caller\n"
            "  berth                  0.040         0.250\n"
            "  raw PATCH                  -         1.000\n"
            "\n");
}

TEST(RequestTables, SayWhatFailedWithAnyNumberOfCallers) {
  const ContenderFigures fine{.name = kAgentName, .add = {.requests = 1}, .del = {.requests = 1}};
  const ContenderFigures failing{.name = kAgentName, .add = {.failed = 3, .first_error = "full"}, .del = {}};
  EXPECT_THAT(RequestTables({{.callers = 1, .contenders = {fine}}, {.callers = 8, .contenders = {failing}}}),
              HasSubstr("  berth                  1.000         0.000  3 FAILED, the first: full\n"));
}

TEST(RunThatTimes, SaysNothingAboutRequests) {
  const OpFigures figures{.p50_ms = 1, .per_second = 1000};
  std::vector<CallersFigures> all;
  for (const int callers : {1, 8, 32}) {
    all.push_back({.callers = callers});
    for (const char* name : {kAgentName, kDirectName, kHostLocalName, kRawName}) {
      all.back().contenders.push_back({.name = name, .add = figures, .del = figures});
    }
  }
  EXPECT_THAT(Goals(all), StartsWith("Goals\n"));
  EXPECT_THAT(Tables(all) + Goals(all), Not(HasSubstr("requests")));
}

}  // namespace
}  // namespace berth::bench
