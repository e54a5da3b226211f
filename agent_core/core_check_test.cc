// SPDX-License-Identifier: Apache-2.0
// Each function of Core that changes a block's state ends the process if the state breaks an invariant.
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"

namespace berth::agent_core {
namespace {

constexpr Now kNow{.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)};

ipam::BlockView BlockWithVersion(const std::string& version) {
  ipam::Block block = EmptyBlock(*TestPoolView());
  block.resource_version = version;
  block.agent = "m-me.1";
  return std::make_shared<const ipam::Block>(std::move(block));
}

struct CheckCase {
  const char* name;
  std::function<void(Core& core, BlockState& state)> call;
  friend void PrintTo(const CheckCase& one, std::ostream* out) { *out << one.name; }
};

const CheckCase kCheckCases[] = {
    {"Submit", [](Core& core, BlockState& state) { static_cast<void>(core.Submit(state, {}, kNow.steady)); }},
    {"SubmitDeferred", [](Core& core, BlockState& state) { core.SubmitDeferred(state, {}, kSendNow, kNow); }},
    {"Withdraw", [](Core&, BlockState& state) { Core::Withdraw(state, 1); }},
    {"HandOut",
     [](Core& core, BlockState& state) { static_cast<void>(core.HandOut(state, Taking(TestPoolView(), "a2"), kNow)); }},
    {"UndoHandOut", [](Core&, BlockState& state) { Core::UndoHandOut(state, 7); }},
    {"Resume",
     [](Core& core, BlockState& state) {
       News news;
       HandedOut note{.attachment = AttachmentNamed("a2"), .entry = EntryText("a2")};
       static_cast<void>(core.Resume(state.view->uid, 3, std::move(note), state.view->name, news));
     }},
    {"WriteWhatIsLeft", [](Core& core, BlockState&) { static_cast<void>(core.WriteWhatIsLeft(kNow)); }},
    {"EndDeferred", [](Core& core, BlockState&) { static_cast<void>(core.EndDeferred()); }},
    {"Begin",
     [](Core& core, BlockState& state) {
       state.is_sending = true;
       core.Begin(state, kNow.steady);
     }},
    {"Next",
     [](Core& core, BlockState& state) {
       News news;
       static_cast<void>(core.Next(state, kNow, news));
     }},
    {"Answer",
     [](Core& core, BlockState& state) {
       News news;
       state.is_sending = true;
       state.rounds.push_back({.changes = {}, .awaits = Round::Awaits::kConflictRead, .before = state.view});
       core.Answer(state, BlockWithVersion("3"), kNow, kNow, news);
     }},
    {"End", [](Core&, BlockState& state) { static_cast<void>(Core::End(state)); }},
    {"Insert",
     [](Core& core, BlockState&) {
       News news;
       core.Insert(BlockWithVersion("4"), BlockWithVersion("3"), kNow, news);
     }},
    {"Adopt",
     [](Core& core, BlockState& state) {
       News news;
       core.Adopt(state, BlockWithVersion("3"), kNow, news);
     }},
    {"KeepUntilEnd", [](Core&, BlockState& state) { Core::KeepUntilEnd(state, BlockWithVersion("3")); }},
    {"Distrust", [](Core&, BlockState& state) { Core::Distrust(state); }},
    {"CloseDoubt", [](Core&, BlockState& state) { Core::CloseDoubt(state, AttachmentNamed("a1")); }},
    {"Prove", [](Core&, BlockState& state) { Core::Prove(state, kNow); }},
};

class CoreCheck : public testing::TestWithParam<CheckCase> {};

TEST_P(CoreCheck, EndsTheProcessIfAnAttachmentHasTwoAddresses) {
  Core core({.self = {.node = "n1", .instance = "m-me"}, .standby = 2});
  News news;
  core.Insert(BlockWithVersion("2"), BlockWithVersion("1"), kNow, news);
  BlockState& state = *core.Find(BlockWithVersion("2")->name);
  for (const ipam::BlockOffset offset : {1U, 2U}) {
    state.handed_out[offset] = {.id = offset, .attachment = AttachmentNamed("a1"), .entry = EntryText("a1")};
  }
  EXPECT_DEATH(GetParam().call(core, state), "was handed out two addresses");
}

INSTANTIATE_TEST_SUITE_P(Core, CoreCheck, testing::ValuesIn(kCheckCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace berth::agent_core
