// SPDX-License-Identifier: Apache-2.0
// ModelApi: an API server in memory for tests, with the faults that a real one and a network have.
//
// It keeps what berth relies on: resourceVersions from one counter, merge patches that compare, 404 and 409, identical
// patches that change nothing, finalizers, field selectors, pages and lists of an older version, watches with
// bookmarks, and what the CRDs bound (model_schema.h). e2e/contract holds it to what the real one does.
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
  kUnavailable,      // nothing happens, and the client knows
  kLostAfterCommit,  // it happens; the answer does not come
  kLateCommit,       // it happens when ReleaseLateWrites is called, if it still can; no answer
  kInvalid,          // 422: a rule refuses it
  kForbidden,        // 403 by RBAC
};

// Any thread.
class ModelApi final : public Api {
 public:
  // Of the empty store.
  static constexpr std::uint64_t kFirstVersion = 100;

  // Asked for each request, while no lock of the model is held. Unset: no faults.
  using Faults = std::function<ApiFault(const Request& request)>;
  void SetFaults(Faults faults);
  void ReleaseLateWrites();

  // From now on reads with resourceVersion=0 are answered with what is there now, until ReleaseCache: the cache lags.
  void HoldCache();
  void ReleaseCache();

  // What was before is forgotten, as by etcd's compaction: no watch and no next page begins there.
  void Compact();
  // Pages are no longer than that, whatever the limit.
  void SetPageMax(std::size_t objects);

  // The CRDs are rolled back: this field of any object is forgotten, and dropped from what is written from now on.
  void DropField(const std::string& field);

  // What a backup holds, and a restore of it: the counter of versions goes back as well, and watches end. With `bump`
  // it goes on so far above the backup's, nothing is known of what was before, and objects keep their versions (etcdutl
  // snapshot restore --bump-revision --mark-compacted).
  struct Backup;
  [[nodiscard]] std::shared_ptr<const Backup> TakeBackup() const;
  void Restore(const Backup& backup, std::uint64_t bump = 0);

  // Direct access for tests, without faults, checks and counting. A collection is that of all namespaces or of one.
  void Put(const std::string& collection, nlohmann::json object);
  // Takes it away, whatever its finalizers; nothing happens if it is not there.
  void Remove(const std::string& collection, const std::string& name);
  [[nodiscard]] std::vector<nlohmann::json> Objects(const std::string& collection) const;
  // Changes an object as somebody else would; false: it does not exist.
  bool Change(const std::string& collection, const std::string& name,
              const std::function<void(nlohmann::json&)>& change);
  [[nodiscard]] int CountOf(Method method) const;
  // Told of each change of an object as it happens, under the model's lock; null: it was not there, or is gone.
  using Stored =
      std::function<void(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after)>;
  void OnStore(Stored stored) { stored_ = std::move(stored); }
  // Told of each patch that leaves its object as it was, under the model's lock.
  void OnUnchanged(std::function<void(const Request& request)> unchanged) { unchanged_ = std::move(unchanged); }
  // The same of a restore: what there is now.
  void OnRestore(std::function<void(const Backup& now)> restored) { restored_ = std::move(restored); }

  Expected<Response> Call(const Request& request, const CallOptions& options) override;
  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override;

 private:
  struct Event {
    std::uint64_t version;
    std::string collection;
    nlohmann::json before;  // null: it was not there
    nlohmann::json object;  // as it is told, also of one that is gone
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
  // A pod to a node, as a scheduler does it.
  Answer Bind(const Request& request, const Target& target);
  [[nodiscard]] Answer Read(const Request& request, const Target& target) const;
  [[nodiscard]] Answer List(const Request& request, const Target& target) const;
  // A body, as it would be stored.
  [[nodiscard]] std::expected<nlohmann::json, Refused> Parsed(const Request& request) const;
  // The key under which the object of that name is kept, in whatever namespace if the collection is that of all.
  [[nodiscard]] std::optional<std::string> Find(const Target& collection, const std::string& name) const;
  // Stores the object; gone: takes it away, and this is what watches are told. The version is set. Returns it.
  const nlohmann::json& Store(const std::string& collection, nlohmann::json object, bool is_gone = false);
  // The collection as it was.
  [[nodiscard]] ByName AsOf(std::uint64_t version, const std::string& collection) const;
  // What a watch tells of an event; null: nothing.
  [[nodiscard]] static nlohmann::json Told(const Event& event, const Request& request, const Target& target);
  // What a watch tells first, and from where it goes on.
  [[nodiscard]] std::vector<nlohmann::json> Begin(const Request& request, const Target& target,
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
  std::uint64_t forgotten_ = kFirstVersion;  // what was before that version
  std::size_t page_max_ = SIZE_MAX;
  std::uint64_t uids_ = 100;
  std::uint64_t restores_ = 0;
  Faults faults_;
  Stored stored_;
  std::function<void(const Request&)> unchanged_;
  std::function<void(const Backup&)> restored_;
};

struct ModelApi::Backup {
  Collections collections;
  std::uint64_t version = 0;
};

}  // namespace berth::k8sclient::testing
