// SPDX-License-Identifier: Apache-2.0
// Rule `in-time`: the answer of each call comes within the call's time limit, whatever the API server does.
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class InTime final : public Checker {
 public:
  explicit InTime(Story& story) : story_(story) {}

  void Ended(const Heard& call) override {
    if (!call.is_answered || call.took <= call.allowed) return;
    story_.Break("in-time",
                 call.verb + " of " + call.attachment + " took " +
                     std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(call.took).count()) + " ms");
  }

 private:
  Story& story_;
};

}  // namespace

std::unique_ptr<Checker> MakeInTime(Story& story) { return std::make_unique<InTime>(story); }

}  // namespace berth::sim
