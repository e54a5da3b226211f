// SPDX-License-Identifier: Apache-2.0
// Connects the parts of the extender.
#include "reconciler/extender_server.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "ipam/address.h"
#include "k8sclient/clock.h"
#include "reconciler/extender_snapshot.h"
#include "reconciler/pod_requests.h"
#include "reconciler/read_holders.h"

namespace berth::reconciler {

Expected<extender::Pod> ReadAsked(const nlohmann::json& pod, const std::vector<UnitRequest>& defaults) {
  // More addresses than any node has. The limit keeps sums from overflowing.
  constexpr std::int64_t kUnitsAskedMax = std::int64_t{1} << 40;
  auto seen = ReadPod(pod);
  if (!seen) return std::unexpected(std::move(seen.error()));
  extender::Pod asked{.key = NamespacedName(seen->name_space, seen->name), .uid = seen->uid, .needs = {}};
  for (const UnitRequest& need : seen->Needs(&defaults))
    asked.needs.emplace(need.resource, std::min(need.units, kUnitsAskedMax));
  return asked;
}

ExtenderServer::ExtenderServer(const Options& options, Metrics& metrics)
    : endpoint_{.name_space = options.lease_namespace, .address = options.extender_address},
      service_({.chooser = chooser_,
                .read_pod = [defaults = ParseResources(options.extender_resources)](
                                const nlohmann::json& pod) { return ReadAsked(pod, defaults); },
                .observe =
                    [this, &metrics](std::string_view verb, std::string_view result, std::chrono::nanoseconds took) {
                      metrics.ExtenderAnswered(verb, result, took);
                      metrics.SetExtenderAssumed(chooser_.assumed());
                    }}) {}

Expected<std::unique_ptr<ExtenderServer>> ExtenderServer::Start(const Options& options, Metrics& metrics) {
  if (!ipam::Address::Parse(options.extender_address)) {
    return Fail(ErrorCode::kInvalid,
                "--extender-address " + Quoted(options.extender_address) + " is no IP address",
                "give the address at which the scheduler reaches this controller, such as the pod's own");
  }
  std::unique_ptr<ExtenderServer> extender(new ExtenderServer(options, metrics));
  auto server = http::HttpServer::Make(
      {.tcp_address = ":" + std::to_string(options.extender_port),
       .shares_port = false,
       // One request at a time, because a parsed body takes several times the memory of its text.
       .tcp_limits = {.workers = 1, .reading_max = 32, .waiting_max = 32, .body_bytes_max = std::size_t{16} << 20},
       .tls = {{.certificate = options.extender_cert,
                .key = options.extender_key,
                .client_ca = options.extender_client_ca}}},
      {.answer =
           [service = &extender->service_](const http::HttpRequest& request) {
             return service->Answer(request.method, request.path, request.body);
           },
       .overload = [] { return http::HttpAnswer{.status = 503, .body = "too many callers\n"}; }});
  if (!server) return std::unexpected(server.error().Within("--extender-port"));
  extender->server_ = *std::move(server);
  extender->endpoint_.port = static_cast<std::uint16_t>(extender->server_->tcp_port());
  spdlog::info("serving the scheduler extender port={}", extender->endpoint_.port);
  return extender;
}

std::array<std::jthread, 2> ExtenderServer::Lead(k8sclient::Api& api, const std::stop_token& stop) {
  chooser_.Lead(std::chrono::steady_clock::now());
  return {std::jthread([this, &api, stop] { extender::KeepEndpoint(api, k8sclient::RealClock(), endpoint_, stop); }),
          std::jthread([this, &api, stop] { KeepWakingScheduler(api, stop); })};
}

void ExtenderServer::Publish(extender::Snapshot snapshot, const World& world, SteadyTime read_at) {
  const auto look = [&world](const std::string& key, const std::string& uid) { return SeenIn(world, key, uid); };
  if (!chooser_.Publish(std::move(snapshot), look, read_at)) return;
  const Lock lock(mutex_);
  shall_wake_ = true;
  woken_.notify_one();
}

void ExtenderServer::KeepWakingScheduler(k8sclient::Api& api, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kCallMax{5000};
  constexpr std::chrono::milliseconds kWakePause{1000};
  while (!stop.stop_requested()) {
    {
      Lock lock(mutex_);
      woken_.wait(lock.native(), stop, [this]() BERTH_REQUIRES(mutex_) { return shall_wake_; });
      shall_wake_ = false;
    }
    if (stop.stop_requested()) return;
    const auto stamp = k8sclient::RealClock().WallNow().time_since_epoch() / std::chrono::milliseconds(1);
    const auto woken =
        extender::WakeScheduler(api, endpoint_.name_space, stamp, k8sclient::CallOptions::Within(kCallMax, stop));
    if (!woken) {
      spdlog::warn(
          "cannot tell the scheduler to try waiting pods again, so these pods may wait for five minutes err={}",
          Quoted(woken.error().message));
      const Lock lock(mutex_);
      shall_wake_ = true;
    }
    if (!k8sclient::RealClock().Sleep(kWakePause, stop)) return;
  }
}

}  // namespace berth::reconciler
