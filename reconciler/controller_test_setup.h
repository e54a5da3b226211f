// SPDX-License-Identifier: Apache-2.0
// For tests only: a controller on an API server in memory, with a watch that delivers when the test says so.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/timestamp.h"
#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/server_clock.h"
#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/model_api.h"
#include "k8sclient/verbs.h"
#include "reconciler/controller.h"
#include "reconciler/events.h"
#include "reconciler/read_objects.h"
#include "reconciler/world_test_setup.h"

namespace berth::reconciler {

// The objects of one kind, as a list would show them now.
template <typename Seen>
std::map<std::string, Seen> ViewOf(const k8sclient::testing::ModelApi& api, std::string_view path,
                                   Expected<Seen> (*read)(json)) {
  std::map<std::string, Seen> view;
  for (const json& object : api.Objects(std::string(path))) {
    auto seen = read(object);
    if (seen) view.emplace(object["metadata"]["name"].get<std::string>(), *std::move(seen));
  }
  return view;
}

inline void DeliverAll(const k8sclient::testing::ModelApi& api, Mailbox& mailbox) {
  mailbox.Replace(ViewOf<SeenPool>(api, crds::kPoolsPath, ReadPool));
  mailbox.Replace(ViewOf<crds::Space>(api, crds::kSpacesPath, ReadSpace));
  mailbox.Replace(ViewOf<SeenReservation>(api, crds::kReservationsPath, ReadReservation));
  mailbox.Replace(ViewOf<SeenBlock>(api, crds::kBlocksPath, ReadBlock));
}

class ControllerTest : public testing::Test {
 protected:
  using Api = k8sclient::testing::ModelApi;
  using ApiFault = k8sclient::testing::ApiFault;

  explicit ControllerTest(Settings settings = {}) : settings_(std::move(settings)) {
    spdlog::set_level(spdlog::level::off);
    Reset();
  }

  void Reset() {
    controller_.reset();
    server_ = std::make_unique<Api>();
    mailbox_ = std::make_unique<Mailbox>();
    controller_ = std::make_unique<Controller>(*server_, server_clock_, *mailbox_, metrics_, settings_);
  }

  void PutPool(const std::string& name, json spec) {
    server_->Put(std::string(crds::kPoolsPath),
                 {{"metadata", {{"name", name}, {"generation", 1}}}, {"spec", std::move(spec)}});
  }
  void PutReservation(const std::string& name, json spec) {
    server_->Put(std::string(crds::kReservationsPath), {{"metadata", {{"name", name}}}, {"spec", std::move(spec)}});
  }
  // As a node would claim it.
  void PutBlock(const std::string& pool, const std::string& cidr, const json& allocations) {
    ipam::Block block = ipam::NewBlock(*ReadPool(Pool(pool)).value().pool, ipam::PrefixOf(cidr), "n1");
    for (const auto& [offset, entry] : allocations.items()) {
      block.allocations[static_cast<ipam::BlockOffset>(std::stoul(offset))] = entry.get<std::string>();
    }
    server_->Put(std::string(crds::kBlocksPath), crds::BlockToJson(block));
  }
  void SetEntry(const std::string& block, const std::string& offset, const json& entry) {
    server_->Change(std::string(crds::kBlocksPath), block, [&](json& object) {
      if (entry.is_null()) {
        object["allocations"].erase(offset);
      } else {
        object["allocations"][offset] = entry;
      }
      object["used"] = object["allocations"].size();
    });
  }
  // As kubectl would do it.
  void Delete(std::string_view collection, const std::string& name) {
    is_user_ = true;
    ASSERT_TRUE(k8sclient::Delete(*server_, k8sclient::ObjectPath(collection, name), {}, {}).has_value());
    is_user_ = false;
  }

  [[nodiscard]] json Object(std::string_view collection, const std::string& name) const {
    for (json& object : server_->Objects(std::string(collection))) {
      if (object["metadata"]["name"] == name) return std::move(object);
    }
    return json::object();
  }
  [[nodiscard]] bool Exists(std::string_view collection, const std::string& name) const {
    return !Object(collection, name).empty();
  }
  [[nodiscard]] json Pool(const std::string& name) const { return Object(crds::kPoolsPath, name); }
  [[nodiscard]] json Space(const std::string& name) const { return Object(crds::kSpacesPath, name); }
  [[nodiscard]] std::string EntryAt(const std::string& block, const std::string& offset) const {
    return Object(crds::kBlocksPath, block).value(json::json_pointer("/allocations/" + offset), std::string());
  }
  [[nodiscard]] std::string ReadyOf(const std::string& pool) const {
    const auto seen = ReadPool(Pool(pool));
    if (!seen) return "no such pool";
    const crds::Condition* ready = crds::FindCondition(seen->status.conditions, crds::kReadyCondition);
    return ready == nullptr ? "none" : ready->status + "/" + ready->reason;
  }
  // Number of writes, without events.
  [[nodiscard]] int Writes() const {
    return server_->CountOf(k8sclient::Method::kPost) + server_->CountOf(k8sclient::Method::kPatch) +
           server_->CountOf(k8sclient::Method::kDelete) - static_cast<int>(Events().size());
  }
  // "<name of the object> <reason>"
  [[nodiscard]] std::vector<std::string> Events() const {
    std::vector<std::string> events;
    for (const json& event : server_->Objects(std::string(kEventsPath))) {
      events.push_back(event["involvedObject"]["name"].get<std::string>() + " " + event["reason"].get<std::string>());
    }
    return events;
  }

  void DeliverTo(Mailbox& to) { DeliverAll(*server_, to); }
  void Deliver() { DeliverTo(*mailbox_); }
  std::chrono::steady_clock::time_point RunPassWithoutNews() { return controller_->RunPass({}); }
  std::chrono::steady_clock::time_point RunPass() {
    Deliver();
    return RunPassWithoutNews();
  }
  // Runs passes until nothing is written any more, also after back-off and after the ten seconds between writes of
  // counts.
  void Settle() {
    for (int quiet = 0, pass = 0; quiet < 3; ++pass) {
      ASSERT_LT(pass, 200) << "it does not come to rest";
      const int before = Writes();
      RunPass();
      quiet = Writes() == before ? quiet + 1 : 0;
      if (quiet > 0) clock_.Advance(std::chrono::seconds(35));
    }
  }

  // Deletes a pool, creates another pool, and creates a reservation. `fault` is called for each of the controller's
  // requests.
  void Tell(const std::function<ApiFault()>& fault) {
    PutPool("gone", {{"subnet", "10.66.0.0/24"}});
    Settle();
    PutBlock("gone", "10.66.0.0/26", json::object());
    server_->SetFaults([&](const k8sclient::Request&) { return is_user_ ? ApiFault::kNone : fault(); });
    Delete(crds::kPoolsPath, "gone");
    PutPool("web", {{"subnet", "10.55.0.0/24"}});
    PutReservation("r", {{"addresses", {"10.55.0.4"}}});
    for (int i = 0; i < 3; ++i) RunPass();
    PutBlock("web", "10.55.0.0/26", {{"3", kHeldEntry}});
    Settle();
    server_->SetFaults(nullptr);
    server_->ReleaseLateWrites();
    Settle();
  }

  const Settings settings_;
  k8sclient::testing::FakeClock clock_;
  k8sclient::ServerClock server_clock_{clock_};
  std::unique_ptr<Api> server_;
  Metrics metrics_;

 private:
  bool is_user_ = false;

 protected:
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace berth::reconciler
