// SPDX-License-Identifier: Apache-2.0
// WatchThread: a Reflector with a thread of its own, for as long as the object lives.
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

// What a watch does with what it sees; called from the watch's thread.
struct WatchActions {
  std::function<void(nlohmann::json)> upsert;
  // The whole collection was handed to `upsert`; these are the names in it.
  std::function<void(const std::set<std::string>&)> listed;
  std::function<void(nlohmann::json)> remove;
};

class WatchHandler;

class WatchThread {
 public:
  // Starts at once. api and clock must outlive this.
  WatchThread(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options, WatchActions actions);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  std::unique_ptr<WatchHandler> handler_;
  k8sclient::Reflector reflector_;
  std::jthread thread_;
};

// Hands over what the collection holds, once, in this thread; tries again until it worked or stop is requested.
void ListOnce(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options, WatchActions actions,
              const std::stop_token& stop);

}  // namespace berth::agent
