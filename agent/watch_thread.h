// SPDX-License-Identifier: Apache-2.0
// WatchThread: a Reflector with a thread of its own, which runs as long as the WatchThread exists.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "k8sclient/reflector.h"

namespace berth::agent {

// Callbacks for the events of a watch; called from the watch's thread.
struct WatchActions {
  std::function<void(nlohmann::json)> upsert;
  // Called with all names of a list, after `upsert` was called for the last object of the list.
  std::function<void(const std::set<std::string>&)> listed;
  std::function<void(nlohmann::json)> remove;
};

class WatchHandler;

class WatchThread {
 public:
  // Starts the thread. api and clock must outlive this object.
  WatchThread(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options, WatchActions actions);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  std::unique_ptr<WatchHandler> handler_;
  k8sclient::Reflector reflector_;
  std::jthread thread_;
};

// Lists the collection once, in this thread, and passes it to the actions. Tries again until this has succeeded, or
// stop is requested.
void ListOnce(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options, WatchActions actions,
              const std::stop_token& stop);

}  // namespace berth::agent
