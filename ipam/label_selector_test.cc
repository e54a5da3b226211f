// SPDX-License-Identifier: Apache-2.0
// LabelSelector: each operator with a label that matches, with one that does not, and without the label.
#include "ipam/label_selector.h"

#include <string>

#include <gtest/gtest.h>

namespace berth::ipam {
namespace {

using Operator = LabelRequirement::Operator;

const LabelRequirement kZoneInAB{.key = "zone", .op = Operator::kIn, .values = {"a", "b"}};
const LabelRequirement kZoneNotInAB{.key = "zone", .op = Operator::kNotIn, .values = {"a", "b"}};
const LabelRequirement kGpuExists{.key = "gpu", .op = Operator::kExists, .values = {}};
const LabelRequirement kNoOld{.key = "old", .op = Operator::kDoesNotExist, .values = {}};

struct MatchCase {
  const char* name;
  LabelSelector selector;
  Labels labels;
  bool want;
};
class LabelSelectorMatch : public testing::TestWithParam<MatchCase> {};

TEST_P(LabelSelectorMatch, IsThatOfKubernetes) {
  EXPECT_EQ(GetParam().selector.Matches(GetParam().labels), GetParam().want);
}

const MatchCase kMatchCases[] = {
    {"EmptyAdmitsEverything", {}, {{"zone", "a"}}, true},
    {"EmptyAdmitsAnObjectWithoutLabels", {}, {}, true},
    {"InAdmitsAListedValue", {{kZoneInAB}}, {{"zone", "b"}}, true},
    {"InRefusesAnotherValue", {{kZoneInAB}}, {{"zone", "c"}}, false},
    {"InRefusesAMissingKey", {{kZoneInAB}}, {{"region", "a"}}, false},
    {"NotInRefusesAListedValue", {{kZoneNotInAB}}, {{"zone", "a"}}, false},
    {"NotInAdmitsAnotherValue", {{kZoneNotInAB}}, {{"zone", "c"}}, true},
    {"NotInAdmitsAMissingKey", {{kZoneNotInAB}}, {}, true},
    {"ExistsAdmitsAnyValue", {{kGpuExists}}, {{"gpu", ""}}, true},
    {"ExistsRefusesAMissingKey", {{kGpuExists}}, {{"zone", "gpu"}}, false},
    {"DoesNotExistRefusesAnyValue", {{kNoOld}}, {{"old", ""}}, false},
    {"DoesNotExistAdmitsAMissingKey", {{kNoOld}}, {}, true},
    {"AllMustHold", {{kZoneInAB, kGpuExists, kNoOld}}, {{"zone", "a"}, {"gpu", "1"}}, true},
    {"OneThatFailsIsEnough", {{kZoneInAB, kGpuExists, kNoOld}}, {{"zone", "a"}, {"gpu", "1"}, {"old", "1"}}, false},
    {"ValuesAreCaseSensitive", {{kZoneInAB}}, {{"zone", "A"}}, false},
};
INSTANTIATE_TEST_SUITE_P(Table, LabelSelectorMatch, testing::ValuesIn(kMatchCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(LabelSelector, ReadsLikeAnArgumentOfKubectl) {
  const LabelSelector selector{{kZoneInAB, kZoneNotInAB, kGpuExists, kNoOld}};
  EXPECT_EQ(selector.ToString(), "zone in (a,b), zone notin (a,b), gpu, !old");
  EXPECT_EQ(LabelSelector().ToString(), "");
}

}  // namespace
}  // namespace berth::ipam
