// SPDX-License-Identifier: Apache-2.0
// For tests only: an agent with addresses on standby, and patches that wait or fail.
#pragma once

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "agent/agent_test_setup.h"
#include "cni/attachment.h"

namespace berth::agent {

inline constexpr std::size_t kStandbyOfAgent = 4;

inline std::string AttachmentOfContainer(const std::string& container) {
  return cni::MakeAttachment("net", container, "eth0");
}

class StandbyTest : public AgentTest {
 protected:
  void StartStandbyAgent(k8sclient::Api* api = nullptr) {
    agent_ = MakeAgentOf(api == nullptr ? watched_ : *api, {.standby = kStandbyOfAgent});
    agent_->Start();
  }
  // Starts an agent with a block in use, whose standby is full.
  void StartWithStandby() {
    StartStandbyAgent();
    ASSERT_TRUE(Add("c0").ok);
    ASSERT_EQ(Standby().size(), kStandbyOfAgent);
  }
  [[nodiscard]] std::vector<int> Standby() const {
    std::vector<int> all;
    for (const nlohmann::json& block : api_.Objects(kBlocks)) {
      const auto some = block.value("standby", std::vector<int>());
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  [[nodiscard]] bool IsWritten(const std::string& container) const {
    const std::string attachment = AttachmentOfContainer(container);
    for (const nlohmann::json& block : api_.Objects(kBlocks)) {
      if (block["allocations"].dump().find(attachment) != std::string::npos) return true;
    }
    return false;
  }
  void AwaitWritten(const std::string& container) const {
    Await([&] { return IsWritten(container); }, "the entry is written");
  }
  [[nodiscard]] nlohmann::json Debug() const { return nlohmann::json::parse(agent_->DebugBlocks()); }
  void AwaitAllWritten() const {
    Await([this] { return Debug()["handedOut"].empty(); }, "what was handed out is written");
  }
  [[nodiscard]] std::size_t Notes() const {
    const std::filesystem::directory_iterator notes(run_dir() + "/nodes/n1/handed-out");
    return static_cast<std::size_t>(std::distance(begin(notes), end(notes)));
  }
  // A folder in the place of the note's file makes the write of the note fail.
  void RefuseNoteOf(const std::string& container) const {
    for (const nlohmann::json& block : api_.Objects(kBlocks)) {
      const std::string name = AttachmentOfContainer(container) + "." + block["metadata"]["name"].get<std::string>();
      std::filesystem::create_directory(run_dir() + "/nodes/n1/handed-out/" + name);
    }
  }
  // Patches wait until Go is called.
  void HoldPatches() {
    api_.SetFaults([this](const k8sclient::Request& request) {
      if (request.method == k8sclient::Method::kPatch) {
        is_held_ = true;
        may_go_.wait(false);
      }
      return ApiFault::kNone;
    });
  }
  void Go() {
    may_go_ = true;
    may_go_.notify_all();
    api_.SetFaults(nullptr);
  }
  void FaultPatches(ApiFault fault) {
    api_.SetFaults([fault](const k8sclient::Request& request) {
      return request.method == k8sclient::Method::kPatch ? fault : ApiFault::kNone;
    });
  }
  Reply AddWithin(const std::string& container, int seconds) {
    return agent_->Handle(Body("ADD", container, "p1", node::BootTimeNow(), seconds));
  }
  // Like a killed agent: what it has not written is lost.
  void KillAgent() {
    agent_.reset();
    api_.SetFaults(nullptr);
  }

  std::atomic<bool> may_go_ = false;
  std::atomic<bool> is_held_ = false;
};

}  // namespace berth::agent
