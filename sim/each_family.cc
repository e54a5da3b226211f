// SPDX-License-Identifier: Apache-2.0
// Rule `each-family`: an ADD that succeeds returns one address of each family of the pools that its network names.
#include <algorithm>

#include "sim/checkers.h"

namespace berth::sim {
namespace {

class EachFamily final : public Checker {
 public:
  explicit EachFamily(Story& story) : story_(story) {}

  void Ended(const Heard& call) override {
    if (call.verb != "ADD" || call.addresses.empty() || call.families == 0) return;
    if (call.addresses.size() == call.families && std::ranges::count_if(call.addresses, IsIpv6) <= 1) return;
    story_.Break("each-family", call.attachment + " was told no more and no less than " + ToText(call.addresses));
  }

 private:
  Story& story_;
};

}  // namespace

std::unique_ptr<Checker> MakeEachFamily(Story& story) { return std::make_unique<EachFamily>(story); }

}  // namespace berth::sim
