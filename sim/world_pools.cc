// SPDX-License-Identifier: Apache-2.0
// A pool is replaced by one with another block size, while some nodes do not hear of it.
#include <algorithm>
#include <array>
#include <thread>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;

void World::ReplacePool(const Machine& machine) {
  if (!may_replace_pool_ || replacements_left_ == 0 || replacing_pool_ > 0) return;
  --replacements_left_;
  ++replacing_pool_;
  Spawn(outside_, [this, name = machine.kubelet.AnyPool()] {
    ReplacePoolNow(name);
    --replacing_pool_;
  });
}

void World::ReplacePoolNow(const std::string& name) {
  story_.Tell("drains pool " + name);
  const auto hold = [this](bool is_held) {
    for (const auto& machine : machines_) machine->kubelet.Hold(is_held);
  };
  hold(true);
  AwaitUnused(name);
  TroublePools();
  if (Below(2) == 0) hold(false);
  pools_.Delete(name);
  const bool is_impatient = May("give-back") && Below(4) != 0;
  while (pools_.IsThere(name)) {
    for (const auto& machine : machines_) machine->kubelet.EndSettled();
    ReleaseByHand();
    if (is_impatient) GiveBackBlocksOf(name);
    std::this_thread::sleep_for(milliseconds(Below(100)));
  }
  story_.Tell("pool " + name + " is gone");
  hold(false);
  // Else most histories have started all their containers by now.
  constexpr std::uint64_t kContainers = 10;
  for (const auto& machine : machines_) {
    for (const char* const caller : {"a", "b"}) {
      Churn(*machine,
            fmt::format("{}r{}{}", machine->node.called(), replacements_left_, caller),
            static_cast<int>(Below(kContainers)));
    }
  }
  std::this_thread::sleep_for(milliseconds(Below(Below(2) == 0 ? 10 : 1'000)));
  ComeToUse(name, pools_.MakeAgain(name));
}

void World::AwaitUnused(const std::string& pool) {
  const auto is_held = [](const json& text) { return !ipam::AttachmentOf(text.get_ref<const std::string&>()).empty(); };
  const auto is_used = [&](const json& block) {
    return block["spec"]["pool"] == pool && std::ranges::any_of(block["allocations"], is_held);
  };
  // An address without a DEL is freed after minutes. By then nobody would be left to start.
  const Nanos end = Now() + 30s;
  while (Now() < end && std::ranges::any_of(store_.Objects(std::string(crds::kBlocksPath)), is_used)) {
    for (const auto& machine : machines_) machine->kubelet.EndSettled();
    std::this_thread::sleep_for(milliseconds(Below(300)));
  }
}

void World::GiveBackBlocksOf(const std::string& pool) {
  for (const json& block : store_.Objects(std::string(crds::kBlocksPath))) {
    if (block["spec"]["pool"] == pool) GiveBack(block);
  }
}

void World::TroublePools() {
  constexpr std::array<std::uint64_t, 3> kFailed{0, 300, 900};
  for (const auto& machine : machines_) {
    machine->link.Set(Link::Trouble{.path = std::string(crds::kPoolsPath),
                                    .failed = kFailed.at(Below(kFailed.size())),
                                    .late = milliseconds(Below(2) == 0 ? 10 : 4'000),
                                    .is_held = Below(4) != 0});
  }
}

void World::ComeToUse(const std::string& before, const std::string& pool) {
  for (const auto& one : machines_) {
    ++replacing_pool_;
    Spawn(outside_, [this, &machine = *one, before, pool] {
      std::this_thread::sleep_for(milliseconds(Below(Below(2) == 0 ? 500 : 20'000)));
      machine.kubelet.RenamePool(before, pool);
      std::this_thread::sleep_for(milliseconds(Below(Below(2) == 0 ? 100 : 10'000)));
      machine.link.Set(Link::Trouble());
      --replacing_pool_;
    });
  }
}

}  // namespace berth::sim
