// SPDX-License-Identifier: Apache-2.0
// Rule `check`: CHECK does not fail for a container that has its addresses, and does not succeed after the DEL was
// answered.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

constexpr Nanos kStillOut = Nanos::max();

// Whether the error says that the container has no address. Other errors leave this open, for example if the API server
// can't be reached.
bool SaysThatItHasNot(const std::string& error) {
  const auto object = nlohmann::json::parse(error);
  if (object["code"] == CniCode(ErrorCode::kNothingHeld)) return true;
  return object["msg"].get_ref<const std::string&>().contains("prevResult");
}

class CheckHolds final : public Checker {
 public:
  explicit CheckHolds(Story& story) : story_(story) {}

  void Leaving(const ipam::Attachment& attachment) override { told_.erase(attachment); }
  void Ended(const Heard& call) override {
    const bool is_done = call.is_answered && call.error.empty();
    if (call.verb == "ADD" && is_done) told_.insert(call.attachment);
    if (call.verb == "DEL" && is_done) given_back_.try_emplace(call.attachment, Now());
    if (call.verb == "CHECK" && call.is_answered) Judge(call);
  }
  void TakenOut(const ipam::Attachment& attachment, const std::string& address) override {
    out_[attachment][address] = kStillOut;
  }
  void Stored(const nlohmann::json& /*before*/, const nlohmann::json& after) override {
    if (out_.empty() || after.is_null()) return;
    for (const auto& [attachment, address] : RecordedIn(after)) {
      const auto its = out_.find(attachment);
      if (its == out_.end()) continue;
      const auto found = its->second.find(address);
      if (found != its->second.end() && found->second == kStillOut) found->second = Now();
    }
  }

 private:
  void Judge(const Heard& call) {
    const Nanos began = Now() - call.took;
    if (call.error.empty()) {
      const auto given_back = given_back_.find(call.attachment);
      if (given_back == given_back_.end() || given_back->second > began) return;
      return story_.Break("check", "a CHECK of " + call.attachment + " succeeds after its DEL was answered");
    }
    if (!told_.contains(call.attachment) || !SaysThatItHasNot(call.error)) return;
    const auto out = out_.find(call.attachment);
    const auto is_out = [&](const auto& one) { return one.second >= began; };
    if (out != out_.end() && std::ranges::any_of(out->second, is_out)) return;
    story_.Break("check", "a CHECK of " + call.attachment + ", which has an address, says: " + call.error);
  }

  Story& story_;
  std::set<ipam::Attachment> told_;               // attachments whose ADD succeeded and whose DEL was not sent
  std::map<ipam::Attachment, Nanos> given_back_;  // when the first DEL was answered
  std::map<ipam::Attachment, std::map<std::string, Nanos>> out_;  // removed entries, and when they were written again
};

}  // namespace

std::unique_ptr<Checker> MakeCheckHolds(Story& story) { return std::make_unique<CheckHolds>(story); }

}  // namespace berth::sim
