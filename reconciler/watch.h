// SPDX-License-Identifier: Apache-2.0
// Watches: one reflector for each kind, which fills the mailbox.
//
// The watching threads parse all objects, so that the deciding thread gets values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "k8sclient/reflector.h"
#include "reconciler/mailbox.h"
#include "reconciler/metrics.h"

namespace berth::reconciler {

class Watches {
 public:
  // All arguments must outlive this. Starts nothing.
  Watches(k8sclient::Api& api, k8sclient::Clock& clock, Mailbox& mailbox, Metrics& metrics);
  // Adds pods, nodes and their Leases. `since`: the version from which the watch of pods has to show deletions; empty:
  // from now on. Requires: Start was not called.
  void AddHolders(const std::string& since);
  void AddAllocations();
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  void Start();

 private:
  struct Watch;
  void Add(std::unique_ptr<k8sclient::ReflectorHandler> handler, k8sclient::ReflectorOptions options);

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  Mailbox& mailbox_;
  Metrics& metrics_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::vector<std::jthread> threads_;
};

}  // namespace berth::reconciler
