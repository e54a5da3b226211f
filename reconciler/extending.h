// SPDX-License-Identifier: Apache-2.0
// Extending: the scheduler extender of this process, as its options want it.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "extender/choice.h"
#include "extender/endpoints.h"
#include "extender/server.h"
#include "extender/service.h"
#include "ipam/error.h"
#include "k8sclient/api.h"
#include "reconciler/metrics.h"
#include "reconciler/options.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// Who the pod is, and the addresses that it needs. Errors: kInvalid.
[[nodiscard]] ipam::Expected<extender::Pod> ReadAsked(const nlohmann::json& pod,
                                                      const std::vector<UnitRequest>& defaults);

// Serves from its making to its end, and answers Error while this process does not lead.
class Extending {
 public:
  // `metrics` must outlive it. Errors: those of extender::Server::Start; kInvalid (no address for the EndpointSlice).
  [[nodiscard]] static ipam::Expected<std::unique_ptr<Extending>> Start(const Options& options, Metrics& metrics);

  // This process leads from now on: the EndpointSlice points at it until stop is requested. `api` must live until the
  // thread that is returned has ended.
  [[nodiscard]] std::jthread Lead(k8sclient::Api& api, const std::stop_token& stop);
  [[nodiscard]] extender::Chooser& chooser() { return chooser_; }

 private:
  Extending(const Options& options, Metrics& metrics);

  extender::Endpoint endpoint_;
  extender::Chooser chooser_;
  extender::Service service_;
  std::unique_ptr<extender::Server> server_;
};

}  // namespace berth::reconciler
