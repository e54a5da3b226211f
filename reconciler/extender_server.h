// SPDX-License-Identifier: Apache-2.0
// ExtenderServer: the scheduler extender of this process, set up from its options.
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

// Reads the pod's identity and the addresses that the pod needs. `defaults`: the needs of a pod that states none.
// Errors: those of ReadPod.
[[nodiscard]] Expected<extender::Pod> ReadAsked(const nlohmann::json& pod, const std::vector<UnitRequest>& defaults);

// Serves from Start until destruction, and answers with an error while this process does not lead.
class ExtenderServer {
 public:
  // `metrics` must outlive the result. Errors: those of http::HttpServer::Make; kInvalid
  // (options.extender_address is no IP address).
  [[nodiscard]] static Expected<std::unique_ptr<ExtenderServer>> Start(const Options& options, Metrics& metrics);

  // Call it when this process begins to lead. Until stop is requested, one thread keeps the EndpointSlice pointing at
  // this process, and one thread wakes the scheduler when pods that found no node may find one. `api` must live until
  // the returned threads have ended.
  [[nodiscard]] std::array<std::jthread, 2> Lead(k8sclient::Api& api, const std::stop_token& stop);
  // Call it after the first decision of each pass, with the world on which the controller decided and the time at which
  // it read that world.
  void Publish(extender::Snapshot snapshot, const World& world, SteadyTime read_at);

 private:
  ExtenderServer(const Options& options, Metrics& metrics);
  void KeepWakingScheduler(k8sclient::Api& api, const std::stop_token& stop);

  extender::Endpoint endpoint_;
  extender::Chooser chooser_;
  extender::Service service_;
  std::unique_ptr<http::HttpServer> server_;
  Mutex mutex_;
  std::condition_variable_any woken_;
  bool shall_wake_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::reconciler
