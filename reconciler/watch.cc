// SPDX-License-Identifier: Apache-2.0
// Defines the reflectors' handler, which parses objects and puts them into the mailbox.
#include "reconciler/watch.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/resource_version.h"
#include "crds/names.h"
#include "k8sclient/text_at.h"
#include "reconciler/logging.h"
#include "reconciler/read_holders.h"
#include "reconciler/read_objects.h"

namespace berth::reconciler {

namespace {

using nlohmann::json;

// ReflectorOptions::pause of the watches of pods and IPAllocations: decisions about them may come seconds later, and
// each pod causes about 15 events.
constexpr std::chrono::milliseconds kPause{250};

std::string TextIn(const json& object, const char* key) {
  return k8sclient::TextAt(k8sclient::ValueAt(object, "metadata"), key);
}

template <typename Seen>
std::string NameIn(const json& object) {
  std::string name = TextIn(object, "name");
  if constexpr (std::is_same_v<Seen, SeenPod> || std::is_same_v<Seen, SeenAllocation>) {
    return NamespacedName(TextIn(object, "namespace"), name);
  }
  return name;
}

void WarnOfProblem(std::string_view kind, const std::string& name, const std::string& problem) {
  if (problem.empty()) return;
  spdlog::warn("object cannot be read, so its addresses stay as they are kind={} name={} err={}",
               kind,
               LogValue(name),
               Quoted(problem));
}

void WarnOf(const SeenPool& pool) { WarnOfProblem(crds::kPoolKind, pool.meta.name, pool.problem); }
void WarnOf(const SeenReservation& seen) { WarnOfProblem(crds::kReservationKind, seen.name, seen.problem); }
void WarnOf(const crds::Space& space) { WarnOfProblem(crds::kSpaceKind, space.meta.name, space.problem); }
void WarnOf(const SeenBlock& block) { WarnOfProblem(crds::kBlockKind, block.name, block.problem); }
void WarnOf(const SeenPod& pod) {
  if (!pod.waits_for_node() || pod.placement != nullptr) return;
  spdlog::warn("pod gets no block, because the placements of pods need too much memory pod={}/{}",
               LogValue(pod.name_space),
               LogValue(pod.name));
}
template <typename Seen>
void WarnOf(const Seen& /*always readable*/) {}

template <typename Seen>
class Handler final : public k8sclient::ReflectorHandler {
 public:
  using Read = Expected<Seen> (*)(json object);
  Handler(std::string_view kind, Read read, Mailbox& mailbox, Metrics& metrics)
      : kind_(kind), read_(read), mailbox_(mailbox), metrics_(metrics) {}

  void BeginList() override { listed_.clear(); }
  void Listed(json object) override {
    auto one = ReadOne(std::move(object));
    if (!one) return;
    std::string name = NameOf(*one);
    listed_.emplace(std::move(name), *std::move(one));
  }
  void EndList(const std::string& resource_version) override {
    spdlog::debug("listed kind={} count={}", kind_, listed_.size());
    mailbox_.Replace(std::exchange(listed_, {}), ParseVersion(resource_version));
  }

  void Upsert(json object) override {
    auto one = ReadOne(std::move(object));
    if (!one) return;
    std::string name = NameOf(*one);
    mailbox_.Put(std::move(name), *std::move(one));
  }

  void Delete(json object) override {
    std::string name = NameIn<Seen>(object);
    const std::uint64_t version = ParseVersion(TextIn(object, "resourceVersion"));
    if constexpr (std::is_same_v<Seen, SeenPod>) {
      if (auto last = ReadOne(std::move(object))) return mailbox_.ObserveDeletion(*std::move(last), version);
    }
    mailbox_.Remove<Seen>(std::move(name), version);
  }

  void Reached(const std::string& resource_version) override {
    if constexpr (std::is_same_v<Seen, SeenPod>) {
      if (const std::uint64_t version = ParseVersion(resource_version)) mailbox_.AdvancePodsTo(version);
    }
  }

  void Failed(const Error& error, std::chrono::milliseconds wait) override {
    metrics_.WatchFailed(kind_);
    spdlog::warn("watch failed kind={} err={} details={} wait_ms={}",
                 kind_,
                 Quoted(error.message),
                 Quoted(error.details),
                 wait.count());
  }

 private:
  std::optional<Seen> ReadOne(json object) {
    const std::string name = NameIn<Seen>(object);
    auto seen = read_(std::move(object));
    if (!seen) {
      spdlog::error("object cannot be read, ignoring it kind={} name={} err={}",
                    kind_,
                    LogValue(name),
                    Quoted(seen.error().message));
      return std::nullopt;
    }
    WarnOf(*seen);
    return *std::move(seen);
  }

  std::string_view kind_;
  Read read_;
  Mailbox& mailbox_;
  Metrics& metrics_;
  std::map<std::string, Seen> listed_;  // objects of the list under way, by name
};

}  // namespace

struct Watches::Watch {
  std::unique_ptr<k8sclient::ReflectorHandler> handler;
  std::unique_ptr<k8sclient::Reflector> reflector;
};

Watches::Watches(k8sclient::Api& api, k8sclient::Clock& clock, Mailbox& mailbox, Metrics& metrics)
    : api_(api), clock_(clock), mailbox_(mailbox), metrics_(metrics) {
  Add(std::make_unique<Handler<SeenPool>>(crds::kPoolKind, ReadPool, mailbox, metrics),
      {.path = std::string(crds::kPoolsPath)});
  Add(std::make_unique<Handler<crds::Space>>(crds::kSpaceKind, ReadSpace, mailbox, metrics),
      {.path = std::string(crds::kSpacesPath)});
  Add(std::make_unique<Handler<SeenReservation>>(crds::kReservationKind, ReadReservation, mailbox, metrics),
      {.path = std::string(crds::kReservationsPath)});
  Add(std::make_unique<Handler<SeenBlock>>(crds::kBlockKind, ReadBlock, mailbox, metrics),
      {.path = std::string(crds::kBlocksPath)});
}

void Watches::AddHolders(const std::string& since) {
  Add(std::make_unique<Handler<SeenPod>>("Pod", ReadPod, mailbox_, metrics_),
      {.path = std::string(kPodsPath), .fields = FieldsOfPods(), .pause = kPause, .since = since});
  Add(std::make_unique<Handler<SeenNode>>("Node", ReadNode, mailbox_, metrics_),
      {.path = std::string(kNodesPath), .fields = FieldsOfNodes()});
  Add(std::make_unique<Handler<SeenLease>>("Lease", ReadLease, mailbox_, metrics_),
      {.path = std::string(kNodeLeasesPath)});
}

void Watches::AddAllocations() {
  Add(std::make_unique<Handler<SeenAllocation>>(crds::kAllocationKind, ReadAllocation, mailbox_, metrics_),
      {.path = std::string(crds::kAllocationsPath), .metadata_only = true, .pause = kPause});
}

void Watches::Add(std::unique_ptr<k8sclient::ReflectorHandler> handler, k8sclient::ReflectorOptions options) {
  options.in_pages = true;
  auto watch = std::make_unique<Watch>();
  watch->handler = std::move(handler);
  watch->reflector = std::make_unique<k8sclient::Reflector>(api_, *watch->handler, clock_, std::move(options));
  watches_.push_back(std::move(watch));
}

Watches::~Watches() = default;

void Watches::Start() {
  for (const auto& watch : watches_) {
    threads_.emplace_back([reflector = watch->reflector.get()](const std::stop_token& stop) { reflector->Run(stop); });
  }
}

}  // namespace berth::reconciler
