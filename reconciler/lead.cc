// SPDX-License-Identifier: Apache-2.0
// Puts together the parts of a leader, and takes part in the election by a Lease.
#include "reconciler/lead.h"

#include <array>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "k8sclient/clock.h"
#include "k8sclient/leader_election.h"
#include "k8sclient/server_clock.h"
#include "k8sclient/verbs.h"
#include "reconciler/controller.h"
#include "reconciler/extender_server.h"
#include "reconciler/logging.h"
#include "reconciler/watch.h"

namespace berth::reconciler {

namespace {

// Annotation of the Lease: the resourceVersion from which the next leader has to watch pods.
constexpr const char* kPodsSeenAnnotation = "ipam.berth.dev/pods-seen";

}  // namespace

ProcessObjects::ProcessObjects() = default;
ProcessObjects::~ProcessObjects() = default;

void Lead(k8sclient::Api& server, ProcessObjects& objects, const Settings& settings, const std::stop_token& stop) {
  HandOver& hand_over = objects.hand_over;
  k8sclient::ServerClock clock(k8sclient::RealClock());
  k8sclient::DatedApi api(server, clock);
  spdlog::info("leading pods_since={}", LogValue(hand_over.found));
  objects.metrics.SetLeading(true);
  Controller controller(api, clock, objects.mailbox, objects.metrics, settings);
  controller.on_version = [&hand_over](std::uint64_t version) { hand_over.reached = version; };
  if (!hand_over.found.empty()) controller.BeginWithOldPods();
  std::array<std::jthread, 2> extender_threads;
  if (objects.extender != nullptr) {
    controller.on_extender_snapshot = [&objects](extender::Snapshot snapshot, const World& world, SteadyTime read_at) {
      objects.extender->Publish(std::move(snapshot), world, read_at);
    };
    extender_threads = objects.extender->Lead(api, stop);
  }
  Watches watches(api, clock, objects.mailbox, objects.metrics);
  watches.AddHolders(hand_over.found);
  if (settings.keeps_allocations) watches.AddAllocations();
  watches.Start();
  controller.Run(stop);
}

Expected<void> Elect(const Candidacy& candidacy, k8sclient::Api& api, HandOver& hand_over, const std::stop_token& stop,
                     const std::function<void(std::stop_token)>& lead) {
  const std::string path =
      k8sclient::Path({"apis", "coordination.k8s.io", "v1", "namespaces", candidacy.lease_namespace, "leases"});
  k8sclient::LeaderElector elector(
      api,
      k8sclient::RealClock(),
      {.path = path, .name = candidacy.lease_name, .identity = candidacy.identity, .note_key = kPodsSeenAnnotation});
  elector.on_failure = [](const Error& error) {
    spdlog::warn("request about the Lease failed err={} details={}", Quoted(error.message), Quoted(error.details));
  };
  elector.note = [&hand_over] { return hand_over.reached == 0 ? std::string() : std::to_string(hand_over.reached); };
  spdlog::info("waiting for the lease lease={}/{} identity={}",
               candidacy.lease_namespace,
               candidacy.lease_name,
               candidacy.identity);
  return elector.Run(stop, [&](const std::stop_token& leading) {
    hand_over.found = elector.found_note();
    lead(leading);
  });
}

}  // namespace berth::reconciler
