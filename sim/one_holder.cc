// SPDX-License-Identifier: Apache-2.0
// Rule `one-holder`: no address has two holders.
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class OneHolder final : public Checker {
 public:
  explicit OneHolder(Story& story) : story_(story) {}

  void MayBeFreed(const ipam::Attachment& attachment) override { told_.Forget(attachment); }
  void Ended(const Heard& call) override {
    if (call.verb != "ADD" || call.addresses.empty()) return;
    for (const auto& [other, its] : told_.addresses()) {
      if (other == call.attachment && its != call.addresses) {
        story_.Break("one-holder", other + " was told " + ToText(call.addresses) + " after " + ToText(its));
      }
      if (other == call.attachment) continue;
      for (const std::string& address : call.addresses) {
        if (!its.contains(address)) continue;
        story_.Break("one-holder", call.attachment + " was told " + address + ", which " + other + " has");
      }
    }
    told_.Ended(call);
  }

 private:
  Story& story_;
  Told told_;
};

}  // namespace

std::unique_ptr<Checker> MakeOneHolder(Story& story) { return std::make_unique<OneHolder>(story); }

}  // namespace berth::sim
