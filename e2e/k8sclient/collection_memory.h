// SPDX-License-Identifier: Apache-2.0
// CollectionMemory: a handler that keeps a Reflector's objects, for tests in other threads.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "k8sclient/reflector.h"

namespace berth::k8sclient {

class CollectionMemory final : public ReflectorHandler {
 public:
  void BeginList() override { listed_.clear(); }
  void Listed(nlohmann::json object) override { Put(listed_, std::move(object)); }
  void EndList(const std::string& /*resource_version*/) override {
    const std::lock_guard lock(mutex_);
    ++replacements_;
    objects_ = std::exchange(listed_, {});
  }
  void Upsert(nlohmann::json object) override {
    const std::lock_guard lock(mutex_);
    ++upserts_;
    Put(objects_, std::move(object));
  }
  void Delete(nlohmann::json object) override {
    const std::lock_guard lock(mutex_);
    objects_.erase(object["metadata"]["name"].get<std::string>());
  }
  void Failed(const Error& error, std::chrono::milliseconds) override {
    const std::lock_guard lock(mutex_);
    ++failures_;
    last_failure_ = error.code;
  }

  // data.value of the ConfigMap `name`; nothing: there is no such ConfigMap.
  [[nodiscard]] std::optional<std::string> Value(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(name);
    if (it == objects_.end()) return {};
    return it->second["data"]["value"].get<std::string>();
  }
  [[nodiscard]] std::vector<std::string> Names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, object] : objects_) names.push_back(name);
    return names;
  }
  [[nodiscard]] int replacements() const { return Locked(replacements_); }
  [[nodiscard]] int upserts() const { return Locked(upserts_); }
  [[nodiscard]] int failures() const { return Locked(failures_); }
  [[nodiscard]] ErrorCode last_failure() const { return Locked(last_failure_); }

 private:
  using ByName = std::map<std::string, nlohmann::json>;
  static void Put(ByName& objects, nlohmann::json object) {
    std::string name = object["metadata"]["name"];
    objects.insert_or_assign(std::move(name), std::move(object));
  }
  template <typename T>
  T Locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  ByName listed_;             // only for the Reflector's thread
  mutable std::mutex mutex_;  // guards the members below
  ByName objects_;
  int replacements_ = 0;
  int upserts_ = 0;
  int failures_ = 0;
  ErrorCode last_failure_ = ErrorCode::kInternal;
};

}  // namespace berth::k8sclient
