// SPDX-License-Identifier: Apache-2.0
// PluginContender: an IPAM plugin that runs as one process per call.
#pragma once

#include <string>

#include "bench/agent_process.h"
#include "bench/contender.h"

namespace berth::bench {

struct PluginContenderOptions {
  std::string name;
  std::string user_agent;
  std::string program;
  std::string ipam_config;              // the section "ipam" of the network configuration, JSON
  const AgentProcess* agent = nullptr;  // the agent that serves the plugin; must outlive the contender
  std::string agent_socket = {};        // the agent's socket
};

class PluginContender final : public Contender {
 public:
  explicit PluginContender(PluginContenderOptions options);

  [[nodiscard]] std::string name() const override { return options_.name; }
  [[nodiscard]] std::string user_agent() const override { return options_.user_agent; }
  [[nodiscard]] int callers_max() const override;
  [[nodiscard]] std::chrono::nanoseconds NodeCpu() const override;
  void AwaitWritten() const override;

  [[nodiscard]] Expected<void> Add(const std::string& container_id) override;
  [[nodiscard]] Expected<void> Del(const std::string& container_id) override;

 private:
  [[nodiscard]] Expected<void> Call(const char* verb, const std::string& container_id) const;

  PluginContenderOptions options_;
  std::string config_;
};

}  // namespace berth::bench
