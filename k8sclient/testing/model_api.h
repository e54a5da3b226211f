// SPDX-License-Identifier: Apache-2.0
// ModelApi: an API server in memory for tests, with the faults of a real server and a network.
//
// ModelApi has every behaviour on which berth relies: resourceVersions from one counter, merge patches with
// compare-and-swap, 404 and 409, identical patches that change nothing, finalizers, field selectors, pages, lists of an
// older version, watches with bookmarks, and the limits of the CRDs (model_schema.h). e2e/contract checks that a real
// server behaves the same.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "k8sclient/api.h"
#include "k8sclient/testing/model_request.h"

namespace berth::k8sclient::testing {

enum class ApiFault : std::uint8_t {
  kNone,
  kUnavailable,      // the model does not execute the request, and the client gets kUnavailable
  kLostAfterCommit,  // the model executes the request, and its answer is lost
  kLateCommit,       // the answer is lost; ReleaseLateWrites executes the request later, if it is still valid
  kInvalid,          // 422: a rule refuses the request
  kForbidden,        // 403: RBAC refuses the request
};

// Any thread may call.
class ModelApi final : public Api {
 public:
  // The resourceVersion of the empty store.
  static constexpr std::uint64_t kFirstVersion = 100;

  // Called for each request, without the model's lock. Unset: no faults.
  using Faults = std::function<ApiFault(const Request& request)>;
  void SetFaults(Faults faults);
  void ReleaseLateWrites();

  // Until ReleaseCache, reads with resourceVersion=0 return the state at the time of HoldCache: the cache lags behind.
  void HoldCache();
  void ReleaseCache();

  // Forgets all versions before the present one, like etcd's compaction: no watch and no next page can begin there.
  void Compact();
  // A page has at most this many objects, even if a request's limit is higher.
  void SetPageMax(std::size_t objects);

  // Simulates a rollback of the CRDs: removes this field from all objects and from all later writes.
  void DropField(const std::string& field);

  // Restore restores a backup: the counter of versions goes back too, and watches end. With `bump`, the counter
  // continues this far above the backup's, all earlier versions are forgotten, and objects keep their versions (etcdutl
  // snapshot restore --bump-revision --mark-compacted).
  struct Backup;
  [[nodiscard]] std::shared_ptr<const Backup> TakeBackup() const;
  void Restore(const Backup& backup, std::uint64_t bump = 0);

  // Put, Remove, Objects and Change are for tests, without faults, checks and counting. `collection` is the collection
  // of all namespaces or of one namespace.
  void Put(const std::string& collection, nlohmann::json object);
  // Removes the object, even if it has finalizers. If there is no such object, does nothing.
  void Remove(const std::string& collection, const std::string& name);
  [[nodiscard]] std::vector<nlohmann::json> Objects(const std::string& collection) const;
  // Changes an object as another client would. False: there is no such object.
  bool Change(const std::string& collection, const std::string& name,
              const std::function<void(nlohmann::json&)>& change);
  [[nodiscard]] int CountOf(Method method) const;
  // Called for each change of an object, under the model's lock. before is null if the object is new; after is null if
  // the object is gone.
  using Stored =
      std::function<void(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after)>;
  void OnStore(Stored stored) { stored_ = std::move(stored); }
  // Called before the model creates, changes or deletes an object, under the model's lock. Returns why a policy refuses
  // that (the answer is then 422); nothing: no policy refuses it. before is null for a creation, after for a deletion.
  using Admission = std::function<std::optional<std::string>(
      const std::string& collection, const nlohmann::json& before, const nlohmann::json& after)>;
  void OnAdmission(Admission admission) { admission_ = std::move(admission); }
  // Called, under the model's lock, for each patch that does not change its object.
  void OnUnchanged(std::function<void(const Request& request)> unchanged) { unchanged_ = std::move(unchanged); }
  // Called, under the model's lock, for each Restore. now: the state after it.
  void OnRestore(std::function<void(const Backup& now)> restored) { restored_ = std::move(restored); }

  Expected<Response> Call(const Request& request, const CallOptions& options) override;
  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override;

 private:
  struct Event {
    std::uint64_t version;
    std::string collection;
    nlohmann::json before;  // null: the object is new
    nlohmann::json object;  // as watches see it; the last state if is_gone
    bool is_gone;
  };
  using ByName = std::map<std::string, nlohmann::json>;
  using Collections = std::map<std::string, ByName>;
  using Answer = std::expected<Response, Refused>;

  Response Execute(const Request& request);
  Answer Answered(const Request& request, const Target& target);
  Answer Create(const Request& request, const Target& target);
  Answer Patch(const Request& request, const Target& target);
  Answer Delete(const Request& request, const Target& target);
  // Binds a pod to a node, as a scheduler does.
  Answer Bind(const Request& request, const Target& target);
  [[nodiscard]] Answer Read(const Request& request, const Target& target) const;
  [[nodiscard]] Answer List(const Request& request, const Target& target) const;
  // Why a policy refuses the write.
  [[nodiscard]] std::optional<Refused> Admit(const Target& target, const nlohmann::json& before,
                                             const nlohmann::json& after) const;
  // The request's body, without the fields of DropField.
  [[nodiscard]] std::expected<nlohmann::json, Refused> Parsed(const Request& request) const;
  // The key of the object of this name. If the collection is of all namespaces, finds the object in any namespace.
  [[nodiscard]] std::optional<std::string> Find(const Target& collection, const std::string& name) const;
  // Gives the object the next version, stores it, and tells watches. If is_gone, removes the object instead; `object`
  // is its last state. Returns the object as watches see it.
  const nlohmann::json& Store(const std::string& collection, nlohmann::json object, bool is_gone = false);
  // The collection at an earlier version.
  [[nodiscard]] ByName AsOf(std::uint64_t version, const std::string& collection) const;
  // The event as the watch sends it; null: the watch does not send it.
  [[nodiscard]] static nlohmann::json EventFor(const Event& event, const Request& request, const Target& target);
  // The events that the watch sends first. If `seen` is 0, these are all objects, and `seen` becomes the present
  // version.
  [[nodiscard]] std::vector<nlohmann::json> InitialEvents(const Request& request, const Target& target,
                                                          std::uint64_t& seen) const;

  mutable std::mutex mutex_;
  std::condition_variable happened_;
  Collections collections_;
  std::optional<Collections> held_cache_;
  std::set<std::string> dropped_fields_;
  std::vector<Event> events_;
  std::vector<Request> late_writes_;
  std::map<Method, int> counts_;
  std::uint64_t version_ = kFirstVersion;
  std::uint64_t oldest_version_ = kFirstVersion;  // earlier versions are forgotten
  std::size_t page_max_ = SIZE_MAX;
  std::uint64_t uids_ = 100;
  std::uint64_t restores_ = 0;
  Faults faults_;
  Stored stored_;
  Admission admission_;
  std::function<void(const Request&)> unchanged_;
  std::function<void(const Backup&)> restored_;
};

struct ModelApi::Backup {
  Collections collections;
  std::uint64_t version = 0;
};

}  // namespace berth::k8sclient::testing
