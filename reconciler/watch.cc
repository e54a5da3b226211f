// SPDX-License-Identifier: Apache-2.0
// The handlers of the four reflectors.
#include "reconciler/watch.h"

#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "crds/names.h"
#include "reconciler/read_objects.h"

namespace berth::reconciler {

namespace {

using nlohmann::json;

const std::string& NameOf(const SeenPool& pool) { return pool.meta.name; }
const std::string& NameOf(const crds::Space& space) { return space.meta.name; }
const std::string& NameOf(const SeenReservation& reservation) { return reservation.name; }
const std::string& NameOf(const SeenBlock& block) { return block.name; }

std::string NameIn(const json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return {};
  const auto name = metadata->find("name");
  return name != metadata->end() && name->is_string() ? name->get<std::string>() : std::string();
}

void WarnOfProblem(std::string_view kind, const std::string& name, const std::string& problem) {
  if (problem.empty()) return;
  spdlog::warn(
      "object cannot be read, what it holds stays held kind={} name={} err={}", kind, name, ipam::Quoted(problem));
}

void WarnOf(const SeenPool& pool) { WarnOfProblem(crds::kPoolKind, pool.meta.name, pool.problem); }
void WarnOf(const crds::Space& /*space*/) {}
void WarnOf(const SeenReservation& seen) { WarnOfProblem(crds::kReservationKind, seen.name, seen.problem); }
void WarnOf(const SeenBlock& block) { WarnOfProblem(crds::kBlockKind, block.name, block.problem); }

template <typename Seen>
class Handler final : public k8sclient::ReflectorHandler {
 public:
  using Read = ipam::Expected<Seen> (*)(json object);
  Handler(std::string_view kind, Read read, Mailbox& mailbox) : kind_(kind), read_(read), mailbox_(mailbox) {}

  void Replace(std::vector<json> objects) override {
    std::map<std::string, Seen> seen;
    for (json& object : objects) {
      auto one = ReadOne(std::move(object));
      if (!one) continue;
      std::string name = NameOf(*one);
      seen.emplace(std::move(name), *std::move(one));
    }
    spdlog::debug("listed kind={} count={}", kind_, seen.size());
    mailbox_.Replace(std::move(seen));
  }

  void Upsert(json object) override {
    auto one = ReadOne(std::move(object));
    if (!one) return;
    std::string name = NameOf(*one);
    mailbox_.Put(std::move(name), *std::move(one));
  }

  void Delete(json object) override { mailbox_.Remove<Seen>(NameIn(object)); }

  void Failed(const ipam::Error& error, std::chrono::milliseconds wait) override {
    spdlog::warn("watch failed kind={} err={} wait_ms={}", kind_, ipam::Quoted(error.message), wait.count());
  }

 private:
  std::optional<Seen> ReadOne(json object) {
    const std::string name = NameIn(object);
    auto seen = read_(std::move(object));
    if (!seen) {
      spdlog::error("object ignored kind={} name={} err={}", kind_, name, ipam::Quoted(seen.error().message));
      return std::nullopt;
    }
    WarnOf(*seen);
    return *std::move(seen);
  }

  std::string_view kind_;
  Read read_;
  Mailbox& mailbox_;
};

}  // namespace

struct Watches::Watch {
  std::unique_ptr<k8sclient::ReflectorHandler> handler;
  std::unique_ptr<k8sclient::Reflector> reflector;
};

Watches::Watches(k8sclient::Api& api, k8sclient::Clock& clock, Mailbox& mailbox) {
  const auto add = [&](std::unique_ptr<k8sclient::ReflectorHandler> handler, std::string_view path) {
    auto watch = std::make_unique<Watch>();
    watch->handler = std::move(handler);
    watch->reflector = std::make_unique<k8sclient::Reflector>(
        api, *watch->handler, clock, k8sclient::ReflectorOptions{.path = std::string(path)});
    watches_.push_back(std::move(watch));
  };
  add(std::make_unique<Handler<SeenPool>>(crds::kPoolKind, ReadPool, mailbox), crds::kPoolsPath);
  add(std::make_unique<Handler<crds::Space>>(crds::kSpaceKind, ReadSpace, mailbox), crds::kSpacesPath);
  add(std::make_unique<Handler<SeenReservation>>(crds::kReservationKind, ReadReservation, mailbox),
      crds::kReservationsPath);
  add(std::make_unique<Handler<SeenBlock>>(crds::kBlockKind, ReadBlock, mailbox), crds::kBlocksPath);
}

Watches::~Watches() = default;

void Watches::Start() {
  for (const auto& watch : watches_) {
    threads_.emplace_back([reflector = watch->reflector.get()](const std::stop_token& stop) { reflector->Run(stop); });
  }
}

}  // namespace berth::reconciler
