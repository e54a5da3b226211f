// SPDX-License-Identifier: Apache-2.0
// Rule `requested`: an ADD that requests addresses returns these addresses, or fails.
#include <algorithm>

#include "sim/checkers.h"

namespace berth::sim {
namespace {

class RequestedKept final : public Checker {
 public:
  explicit RequestedKept(Story& story) : story_(story) {}

  void Ended(const Heard& call) override {
    if (call.verb != "ADD" || call.addresses.empty()) return;
    if (std::ranges::includes(call.addresses, call.requested)) return;
    story_.Break("requested",
                 call.attachment + " requested " + ToText(call.requested) + ", and was told " + ToText(call.addresses));
  }

 private:
  Story& story_;
};

}  // namespace

std::unique_ptr<Checker> MakeRequestedKept(Story& story) { return std::make_unique<RequestedKept>(story); }

}  // namespace berth::sim
