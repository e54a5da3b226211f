// SPDX-License-Identifier: Apache-2.0
// Rule `selected`: no ADD returns an address of a pool whose selectors do not admit the node or the pod's namespace.
#include "ipam/prefix.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class Selected final : public Checker {
 public:
  explicit Selected(Story& story) : story_(story) {}

  void Barred(const BarredSubnets& subnets) override { barred_ = subnets; }
  void Ended(const Heard& call) override {
    if (call.verb != "ADD" || call.addresses.empty() || !told_.insert(call.attachment).second) return;
    const auto [first, last] = barred_.equal_range(call.node);
    for (auto at = first; at != last; ++at) {
      const auto& [subnet, space] = at->second;
      for (const std::string& address : AddressesIn(call.result)) {
        if (space != call.space || !ipam::Prefix::Parse(subnet)->Contains(*ipam::Address::Parse(address))) continue;
        story_.Break("selected", call.attachment + " was told " + address + " of a pool that does not admit it");
      }
    }
  }

 private:
  Story& story_;
  std::set<ipam::Attachment> told_;
  BarredSubnets barred_;
};

}  // namespace

std::unique_ptr<Checker> MakeSelected(Story& story) { return std::make_unique<Selected>(story); }

}  // namespace berth::sim
