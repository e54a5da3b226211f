// SPDX-License-Identifier: Apache-2.0
// AgentNode: a node's agent in this process, with its own connections to the API server.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "bench/contender.h"
#include "cni/config.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"

namespace berth::bench {

struct AgentNodeOptions {
  std::string node;
  std::string pool;
  std::string state_dir;
  std::string run_dir;
  std::string server;  // the API server's address
  bool watches_blocks = true;
};

class AgentNode final : public Contender {
 public:
  // Does not start the agent. Errors: kDecode, kIo.
  [[nodiscard]] static Expected<std::unique_ptr<AgentNode>> Make(std::unique_ptr<k8sclient::Api> api,
                                                                 const AgentNodeOptions& options);

  [[nodiscard]] agent::Agent& agent() { return *agent_; }

  [[nodiscard]] std::string name() const override { return "berth"; }
  [[nodiscard]] std::string user_agent() const override { return "berth-agent"; }
  [[nodiscard]] int callers_max() const override;
  // Hands the call to the agent as the agent's socket does.
  [[nodiscard]] Expected<void> Add(const std::string& container_id) override;
  [[nodiscard]] Expected<void> Del(const std::string& container_id) override;
  // Waits until the agent has written what it answered, at most a minute.
  void AwaitWritten() { agent_->Drain(std::chrono::minutes(1)); }

  // The addresses that ADDs have got since the last call.
  [[nodiscard]] std::vector<std::string> TakeAddresses();

  // Sum of a counter's values in the agent's metrics.
  [[nodiscard]] double Counter(const std::string& name);

 private:
  explicit AgentNode(std::unique_ptr<k8sclient::Api> api) : api_(std::move(api)) {}
  [[nodiscard]] Expected<std::string> Call(cni::Verb verb, const std::string& container_id);

  std::unique_ptr<k8sclient::Api> api_;
  cni::ConfigTree config_;
  std::mutex mutex_;
  std::vector<std::string> addresses_;  // guarded by mutex_
  std::unique_ptr<agent::Agent> agent_;
};

}  // namespace berth::bench
