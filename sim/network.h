// SPDX-License-Identifier: Apache-2.0
// Network: what lies between a program and the API server, and whatever can go wrong there.
//
// Each request travels in a process of its own, so that it arrives although its sender was killed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "k8sclient/api.h"
#include "k8sclient/testing/model_api.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

// Of a thousand requests so many.
struct Weather {
  bool is_away = false;       // the API server answers nobody
  std::uint64_t refused = 0;  // come to nothing, and the client knows
  std::uint64_t lost = 0;     // are executed, and the answer does not come
  std::uint64_t late = 0;     // are executed long after the client gave up
};

class Network final : public k8sclient::Api {
 public:
  // Both must outlive this.
  Network(k8sclient::testing::ModelApi& server, Story& story) : server_(server), story_(story) {}

  void Set(const Weather& weather) { weather_ = weather; }

  // What is planted (world.h): sees a request and its true answer, and may answer otherwise; or keeps it from being
  // executed at all.
  using Answer = ipam::Expected<k8sclient::Response>;
  struct Lies {
    std::function<bool(const k8sclient::Request&)> swallows;  // it is not executed, and answered as if it were
    std::function<void(const k8sclient::Request&, Answer&)> changes;
  };
  void Plant(Lies lies) { lies_ = std::move(lies); }

  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }

  Answer Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) override;
  Answer Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
               const k8sclient::WatchSink& sink) override;

 private:
  struct Exchange;
  enum class Fate : std::uint8_t { kAnswered, kRefused, kLost, kLate };
  [[nodiscard]] Fate Choose() const;
  // In the request's own process.
  void Travel(const std::shared_ptr<Exchange>& exchange, Fate fate);
  [[nodiscard]] Answer Execute(const k8sclient::Request& request);

  k8sclient::testing::ModelApi& server_;
  Story& story_;
  Weather weather_;
  Lies lies_;
  std::uint64_t requests_ = 0;
  std::uint64_t faults_ = 0;
  ProcessPointer wire_ = std::make_shared<Process>("network");
};

}  // namespace berth::sim
