// SPDX-License-Identifier: Apache-2.0
// NodeProxy: faults by index, and the agent behind the proxy.
#include "e2e/conformance/node_proxy.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "e2e/conformance/api_away.h"
#include "e2e/conformance/node_agent.h"

namespace berth::conformance {

using e2e::Fault;
using e2e::SeenRequest;

bool IsWrite(const SeenRequest& request) { return request.method != "GET"; }

// The folder's name contains the test's tag, so no other test uses a node of this name.
NodeProxy::NodeProxy(const std::string& directory)
    : directory_(directory),
      node_("proxied-" + std::filesystem::path(directory).filename().string()),
      proxy_(e2e::UpstreamOf(Settings::Get().mode == Mode::kAgent
                                 ? AgentKubeconfig(node_, directory)
                                 : Settings::Get().NodeKubeconfig(Settings::Get().NodeName()))),
      kubeconfig_(directory + "/proxy.kubeconfig") {
  std::ofstream(kubeconfig_) << e2e::ProxyKubeconfig(proxy_.Url(), "system:node:" + Settings::Get().NodeName());
  if (Settings::Get().mode == Mode::kAgent) StartAgentOfNode();
}

NodeProxy::~NodeProxy() {
  if (agent_ != nullptr && testing::Test::HasFailure()) std::fprintf(stderr, "%s", LogOf(*agent_).c_str());
}

void NodeProxy::StartAgentOfNode() {
  agent_ = StartAgent(node_, kubeconfig_, directory_);
  if (!agent_->AwaitReady()) throw std::runtime_error("the agent does not become ready:\n" + LogOf(*agent_));
}

void NodeProxy::ReplaceAgent() {
  agent_->Kill();
  StartAgentOfNode();
}

Call NodeProxy::Through(const Call& call) const {
  return agent_ == nullptr ? WithKubeconfig(call, kubeconfig_) : WithSocket(call, agent_->settings().socket);
}

void NodeProxy::FaultAt(int index, Fault fault) {
  proxy_.Reset([=](const SeenRequest& request) { return request.index == index ? fault : Fault::kNone; });
}

void NodeProxy::FaultAtWrite(int count, Fault fault) {
  proxy_.Reset([=, writes = 0](const SeenRequest& request) mutable {
    return IsWrite(request) && writes++ == count ? fault : Fault::kNone;
  });
}

void NodeProxy::FaultAlways(Fault fault) {
  proxy_.Reset([=](const SeenRequest&) { return fault; });
}

void NodeProxy::NoFaults() { FaultAlways(Fault::kNone); }

}  // namespace berth::conformance
