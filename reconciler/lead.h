// SPDX-License-Identifier: Apache-2.0
// Lead and Elect: what berth-controller does while it leads, how it becomes the leader, and what it leaves to the next
// leader.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "reconciler/decide.h"
#include "reconciler/mailbox.h"
#include "reconciler/metrics.h"

namespace berth::reconciler {

class ExtenderServer;

// The resourceVersions from which leaders watch pods. `found`: the version that the previous leader left in the Lease
// (empty: none). `reached`: the version that this leader leaves for the next leader (0: none).
struct HandOver {
  std::string found;
  std::atomic<std::uint64_t> reached = 0;
};

// The objects that exist before this process leads.
struct ProcessObjects {
  ProcessObjects();
  ProcessObjects(const ProcessObjects&) = delete;
  ProcessObjects& operator=(const ProcessObjects&) = delete;
  ~ProcessObjects();

  Mailbox mailbox;
  Metrics metrics;
  HandOver hand_over;
  std::unique_ptr<ExtenderServer> extender;  // nullptr: no extender
};

// Lists, watches and decides until stop is requested. The watch of pods begins at objects.hand_over.found.
void Lead(k8sclient::Api& server, ProcessObjects& objects, const Settings& settings, const std::stop_token& stop);

struct Candidacy {
  std::string lease_namespace;
  std::string lease_name;
  std::string identity;  // unique among all processes, restarts included
};
// Waits until this process leads, and then runs `lead`, until stop is requested or the Lease is lost. Errors: those of
// LeaderElector::Run.
[[nodiscard]] Expected<void> Elect(const Candidacy& candidacy, k8sclient::Api& api, HandOver& hand_over,
                                   const std::stop_token& stop, const std::function<void(std::stop_token)>& lead);

}  // namespace berth::reconciler
