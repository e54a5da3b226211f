// SPDX-License-Identifier: Apache-2.0
// Thief: somebody who has the token of a node's agent, and writes to the API server whatever the token may.
//
// No pod runs on the node. docs/hardening.md says what such a thief may do; all else is refused, and no other node's
// pod may suffer from it.
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

  // The node's name.
  static constexpr const char* kNode = "stolen";
  // Writes now and then, until End.
  void Start();
  void End();
  // Whether the thief wrote that entry, by what it says, or all of the block is the stolen node's.
  [[nodiscard]] static bool IsIts(const nlohmann::json& block, const std::string& entry);
  // The block without the thief's entries; null: nothing is left to look at.
  [[nodiscard]] static nlohmann::json WithoutIts(const nlohmann::json& block);
  [[nodiscard]] std::uint64_t requests() const { return link_.requests(); }

 private:
  void WriteOne();
  // Creates a block, of a pool or nearly.
  void Claim();
  // Changes a block that the thief may change.
  void Patch(const nlohmann::json& block);
  // Tries what is to be refused.
  void Trespass(const nlohmann::json& block);
  [[nodiscard]] std::string OddEntry(bool is_shared) const;
  // What a node may write into a Shared block: its own entry, of whatever pod.
  [[nodiscard]] std::string OwnEntry() const;
  // "<namespace>/<pod> <uid> <attachment>" of somebody else, or of nobody.
  [[nodiscard]] std::string AnyHolder() const;
  // How many entries of the thief's count as held.
  [[nodiscard]] std::size_t CountHeld() const;
  // The status; 0: no answer.
  int Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body);

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  Link link_;
  ProcessPointer process_ = std::make_shared<Process>("thief");
};

}  // namespace berth::sim
