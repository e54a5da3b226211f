// SPDX-License-Identifier: Apache-2.0
// Policies by index.
#include "e2e/conformance/node_proxy.h"

#include <fstream>
#include <memory>

#include "e2e/conformance/api_away.h"

namespace berth::conformance {

using e2e::Fault;
using e2e::SeenRequest;

bool IsWrite(const SeenRequest& request) { return request.method != "GET"; }

NodeProxy::NodeProxy(const std::string& directory)
    : proxy_(e2e::UpstreamOf(Settings::Get().NodeKubeconfig(Settings::Get().NodeName()))),
      kubeconfig_(directory + "/proxy.kubeconfig") {
  std::ofstream(kubeconfig_) << e2e::ProxyKubeconfig(proxy_.Url(), "system:node:" + Settings::Get().NodeName());
}

Call NodeProxy::Through(const Call& call) const { return WithKubeconfig(call, kubeconfig_); }

void NodeProxy::FaultAt(int index, Fault fault) {
  proxy_.Reset([=](const SeenRequest& request) { return request.index == index ? fault : Fault::kNone; });
}

void NodeProxy::FaultAtWrite(int count, Fault fault) {
  proxy_.Reset([=, writes = 0](const SeenRequest& request) mutable {
    return IsWrite(request) && writes++ == count ? fault : Fault::kNone;
  });
}

void NodeProxy::NoFaults() {
  proxy_.Reset([](const SeenRequest&) { return Fault::kNone; });
}

}  // namespace berth::conformance
