// SPDX-License-Identifier: Apache-2.0
// Extending: the scheduler extender of this process, as its options want it.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/mutex.h"
#include "extender/choice.h"
#include "extender/endpoints.h"
#include "extender/service.h"
#include "http/http_server.h"
#include "k8sclient/api.h"
#include "reconciler/metrics.h"
#include "reconciler/options.h"
#include "reconciler/pods.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Who the pod is, and the addresses that it needs. Errors: kInvalid.
[[nodiscard]] Expected<extender::Pod> ReadAsked(const nlohmann::json& pod, const std::vector<UnitRequest>& defaults);

// Serves from its making to its end, and answers Error while this process does not lead.
class Extending {
 public:
  // `metrics` must outlive it. Errors: those of http::HttpServer::Make; kInvalid (no address for the EndpointSlice).
  [[nodiscard]] static Expected<std::unique_ptr<Extending>> Start(const Options& options, Metrics& metrics);

  // This process leads from now on: the EndpointSlice points at it, and the scheduler is woken when pods that found no
  // node may find one, until stop is requested. `api` must live until the threads that are returned have ended.
  [[nodiscard]] std::array<std::jthread, 2> Lead(k8sclient::Api& api, const std::stop_token& stop);
  // After each decision, with the world that it is of, and when that was read.
  void Publish(extender::Snapshot rooms, const World& world, SteadyTime read_at);

 private:
  Extending(const Options& options, Metrics& metrics);
  void WakeAgainAndAgain(k8sclient::Api& api, const std::stop_token& stop);

  extender::Endpoint endpoint_;
  extender::Chooser chooser_;
  extender::Service service_;
  std::unique_ptr<http::HttpServer> server_;
  Mutex mutex_;
  std::condition_variable_any woken_;
  bool shall_wake_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::reconciler
