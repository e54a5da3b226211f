// SPDX-License-Identifier: Apache-2.0
// ScriptWorld: prints the core's news and states.
#include <array>
#include <utility>

#include "agent_core/script_world_test_setup.h"

namespace berth::agent_core {

namespace {

std::string_view ToString(Report::Kind kind) {
  using enum Report::Kind;
  switch (kind) {
    case kConflict:
      return "conflict";
    case kBatch:
      return "batch";
    case kInDoubt:
      return "in doubt";
    case kHandedOutRefused:
      return "refused though handed out";
    case kHandedOutLost:
      return "handed out, and lost";
    case kStandbyNotKept:
      return "standby is not kept";
    case kVanished:
      return "vanished";
    case kStillInUse:
      return "freed, and still in use";
    case kFreedRightly:
      return "freed rightly";
    case kWentBack:
      return "the API server went back";
    case kMetAnother:
      return "another agent wrote";
  }
  return "?";
}

std::string_view ToString(Trust trust) {
  constexpr std::array<std::string_view, 4> kNames = {"gives", "must write", "lapsed", "off"};
  return kNames.at(static_cast<std::size_t>(trust));
}

std::string ShownNames(const std::set<ipam::Attachment>& attachments) {
  std::string shown;
  for (const ipam::Attachment& one : attachments) shown += " " + (one.empty() ? "-" : NameOf(one));
  return shown;
}

}  // namespace

std::string ScriptWorld::ErrorText(const Error& error) {
  return std::string(berth::ToString(error.code)) + ": " + error.message;
}

void ScriptWorld::Tell(const News& news) {
  for (const Report& report : news.reports) Tell(report);
  for (const ChangeId id : news.settled) {
    if (id == 0) {
      Complain("an address without an id is settled");
    } else {
      Say(asked_for_.at(id).name + " is settled");
    }
  }
  for (const Outcome& outcome : news.outcomes) Tell(outcome);
}

// Leaves out kBatch: the script shows the request that follows.
void ScriptWorld::Tell(const Report& report) {
  if (report.kind == Report::Kind::kBatch) return;
  const bool is_entry = report.kind != Report::Kind::kMetAnother && !report.text.empty();
  Say("report: " + std::string(ToString(report.kind)) + (report.text.empty() ? "" : ": ") +
      (is_entry ? ShownEntry(report.text) : report.text));
}

void ScriptWorld::Tell(const Outcome& outcome) {
  const auto found = asked_for_.find(outcome.id);
  // The core's own changes have no name.
  const AskedFor asked = found == asked_for_.end() ? AskedFor{.name = "standby", .what = "nothing"} : found->second;
  const bool is_quiet = found == asked_for_.end();
  if (!outcome.result) {
    Say(asked.name + (asked.what == "nothing" ? "" : "'s " + asked.what) +
        " fails: " + ErrorText(outcome.result.error()));
  } else if (asked.what == "take") {
    const ipam::Block& block = **outcome.result;
    const auto offset = ipam::Find(block, AttachmentNamed(asked.name));
    Say(asked.name + " gets " + (offset ? block.cidr.At(*offset).ToString() : "nothing"));
  } else if (!is_quiet) {
    Say(asked.what == "nothing" ? asked.name + " is written" : asked.name + "'s " + asked.what + " is done");
  }
}

std::string ScriptWorld::ShownPending(const PendingChange& one) const {
  const auto found = asked_for_.find(one.id);
  if (found == asked_for_.end()) return "standby";
  return found->second.name + (found->second.what == "nothing" ? "" : " " + found->second.what);
}

void ScriptWorld::Show(const ScriptWords& /*words*/) {
  Say("stored version " + Here().stored.resource_version + ": " +
      ShownDifference(EmptyBlock(*pool_, Here().stored.cidr.ToString()), Here().stored));
  if (core_.Find(current_) != State()) return Say("the block is forgotten");
  ShowState(*State());
}

void ScriptWorld::ShowState(const BlockState& state) {
  Say("known version " + state.view->resource_version +
      ", shown: " + ShownDifference(EmptyBlock(*pool_, state.view->cidr.ToString()), *Shown(state)));
  Say("trust: " + std::string(ToString(core_.TrustIn(state, now_))) +
      ", may give: " + ShownOffsets(core_.MayGive(state, now_)));
  for (const auto& [offset, one] : state.to_restore) {
    Say("restore " + state.view->cidr.At(offset).ToString() + ": " + ShownEntry(one.wanted) + ", not " +
        ShownEntry(one.found));
  }
  for (const auto& [offset, one] : state.handed_out) {
    Say(std::string(one.is_set_aside() ? "set aside " : "handed out ") + state.view->cidr.At(offset).ToString() +
        (one.is_set_aside() ? "" : ": " + NameOf(one.attachment)) +
        (one.is_refused && !one.is_set_aside() ? ", refused" : ""));
  }
  if (state.doubt_version) Say("doubt since version " + *state.doubt_version);
  if (!state.in_doubt.empty()) Say("in doubt:" + ShownNames(state.in_doubt));
  ShowForeignAgent(state);
  std::string waiting;
  for (const PendingChange& one : state.queue) waiting += (waiting.empty() ? "waits: " : ", ") + ShownPending(one);
  if (!waiting.empty()) Say(waiting);
}

void ScriptWorld::ShowForeignAgent(const BlockState& state) {
  if (state.must_fence) Say("must fence");
  if (!state.foreign_agent) return;
  Say("foreign agent " + state.foreign_agent->agent + (state.foreign_agent->came_back ? ", came back" : "") +
      (state.is_contested() ? ", contested" : ""));
}

}  // namespace berth::agent_core
