// SPDX-License-Identifier: Apache-2.0
// ModelApi: an API server in memory for tests, with the faults that a real one and a network have.
//
// It keeps what berth relies on: resourceVersions from one counter, merge patches that compare, 404 and 409, identical
// patches that change nothing, finalizers, field selectors on metadata.name and spec fields, watches. What it accepts
// is not checked against any schema: that is the real server's, in the end-to-end tests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "k8sclient/api.h"

namespace berth::k8sclient::testing {

enum class ApiFault : std::uint8_t {
  kNone,
  kUnavailable,      // nothing happens, and the client knows
  kLostAfterCommit,  // it happens; the answer does not come
  kLateCommit,       // it happens when ReleaseLateWrites is called, if it still can; no answer
  kInvalid,          // 422: a rule refuses it
  kForbidden,        // 403 by RBAC
};

// Any thread.
class ModelApi final : public Api {
 public:
  // Asked for each request, while no lock of the model is held. Unset: no faults.
  using Faults = std::function<ApiFault(const Request& request)>;
  void SetFaults(Faults faults);
  void ReleaseLateWrites();

  // Direct access for tests, without faults and counting.
  void Put(const std::string& collection, nlohmann::json object);
  [[nodiscard]] std::vector<nlohmann::json> Objects(const std::string& collection) const;
  // Changes an object as somebody else would; false: it does not exist.
  bool Change(const std::string& collection, const std::string& name,
              const std::function<void(nlohmann::json&)>& change);
  [[nodiscard]] int CountOf(Method method) const;

  ipam::Expected<Response> Call(const Request& request, const CallOptions& options) override;
  ipam::Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override;

 private:
  struct Event {
    std::uint64_t version;
    std::string collection;
    std::string type;
    nlohmann::json object;
  };
  using ByName = std::map<std::string, nlohmann::json>;

  Response Execute(const Request& request);
  Response Create(const std::string& collection, const Request& request);
  Response Patch(const std::string& collection, const std::string& name, const Request& request);
  Response Delete(const std::string& collection, const std::string& name, const Request& request);
  Response List(const std::string& collection, const Request& request) const;
  void Store(const std::string& collection, const std::string& type, nlohmann::json object);

  mutable std::mutex mutex_;
  std::condition_variable happened_;
  std::map<std::string, ByName> collections_;
  std::vector<Event> events_;
  std::vector<Request> late_writes_;
  std::map<Method, int> counts_;
  std::uint64_t version_ = 100;
  Faults faults_;
};

}  // namespace berth::k8sclient::testing
