// SPDX-License-Identifier: Apache-2.0
// Thief: a person who has the token of a node's agent, and writes to the API server whatever the token allows.
//
// No pod runs on the stolen node. docs/hardening.md says what such a thief can do. The policy refuses everything else,
// and no pod of another node may suffer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/testing/model_api.h"
#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

class Thief {
 public:
  // All must outlive this.
  Thief(k8sclient::testing::ModelApi& store, Network& network, Story& story);

  // The name of the stolen node.
  static constexpr const char* kNode = "stolen";
  // Starts to write every 1.5 s on average, until End.
  void Start();
  void End();
  // Whether the thief may have written the entry: the entry says so, or the stolen node owns the block.
  [[nodiscard]] static bool IsIts(const nlohmann::json& block, const std::string& entry);
  // The block without the thief's entries; null: the stolen node owns the block.
  [[nodiscard]] static nlohmann::json WithoutIts(const nlohmann::json& block);
  [[nodiscard]] std::uint64_t requests() const { return link_.requests(); }

 private:
  void WriteOne();
  // Creates a block that matches a pool, or almost does.
  void Claim();
  // Changes a block that the thief may change.
  void Patch(const nlohmann::json& block);
  // Tries a write that the policy must refuse.
  void Trespass(const nlohmann::json& block);
  [[nodiscard]] std::string OddEntry(bool is_shared) const;
  // An entry that a node may write into a Shared block: it names the stolen node, and a random pod.
  [[nodiscard]] std::string OwnEntry() const;
  // "<namespace>/<pod> <uid> <attachment>" of another pod, or of a pod that does not exist.
  [[nodiscard]] std::string AnyHolder() const;
  // Number of held entries of the thief.
  [[nodiscard]] std::size_t CountHeld() const;
  // Returns the status; 0: no answer.
  int Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body);

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  Link link_;
  ProcessPointer process_ = std::make_shared<Process>("thief");
};

}  // namespace berth::sim
