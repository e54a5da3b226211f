// SPDX-License-Identifier: Apache-2.0
// Defines the controller's metrics, and sets them.
#include "reconciler/metrics.h"

#include <map>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/mutex.h"

namespace berth::reconciler {

namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

const std::vector<double>& SecondsBuckets() {
  static const std::vector<double> kEdges = {0.001, 0.004, 0.016, 0.064, 0.256, 1.0, 4.0, 16.0, 64.0};
  return kEdges;
}

// Gauges of objects that appear and disappear: Clear removes all gauges, and the caller then sets those of the objects
// that still exist.
class Board {
 public:
  Board(prometheus::Registry& registry, const char* name, const char* help)
      : family_(BuildGauge().Name(name).Help(help).Register(registry)) {}

  void Clear() {
    for (Gauge* gauge : gauges_) family_.Remove(gauge);
    gauges_.clear();
  }
  void Set(const prometheus::Labels& labels, double value) {
    gauges_.push_back(&family_.Add(labels));
    gauges_.back()->Set(value);
  }

 private:
  Family<Gauge>& family_;
  std::vector<Gauge*> gauges_;
};

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;

  Family<Gauge>& Gauges(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Register(registry);
  }
  Family<Counter>& Counters(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Histogram>& Histograms(const char* name, const char* help) {
    return BuildHistogram().Name(name).Help(help).Register(registry);
  }

  Gauge& leading = Gauges("berth_controller_leading", "1: this controller leads").Add({});
  Histogram& pass =
      Histograms("berth_controller_pass_seconds",
                 "Duration of a pass: from a look at the watched objects until the decisions are carried out")
          .Add({}, SecondsBuckets());
  Gauge& actions = Gauges("berth_controller_actions", "Actions that the last pass decided on").Add({});
  Family<Gauge>& clock_difference =
      Gauges("berth_clock_difference_seconds",
             "This machine's clock minus the API server's clock, accurate to about a second");
  Family<Counter>& watch_failures =
      Counters("berth_controller_watch_failures_total", "Watches that failed and that the controller began anew");
  Family<Counter>& write_failures =
      Counters("berth_controller_write_failures_total", "Writes that failed and that the controller tries again");
  Family<Counter>& freed = Counters("berth_controller_orphans_freed_total",
                                    "Entries that the controller freed, because their pods are gone");
  Counter& freed_in_use = Counters("berth_controller_freed_in_use_total",
                                   "Entries that a node's agent wrote again after the controller freed them, because "
                                   "the container still existed")
                              .Add({});
  Counter& put_back = Counters("berth_controller_entries_put_back_total",
                               "How often the controller wrote the missing entry of a live pod again")
                          .Add({});
  Counter& nodes_written = Counters("berth_controller_node_writes_total", "Writes of address counts to Nodes").Add({});
  Gauge& contested =
      Gauges("berth_controller_addresses_contested", "Addresses that one pod has, although the entry names another pod")
          .Add({});
  Gauge& due = Gauges("berth_controller_orphans_due", "Orphans that the controller frees now").Add({});
  Gauge& braked =
      Gauges("berth_controller_orphans_braked",
             "1: the controller frees no orphan, because too many orphans belong to pods whose deletion it did not see")
          .Add({});
  Family<Counter>& extender_requests =
      Counters("berth_controller_extender_requests_total", "Requests of kube-scheduler that the extender answered");
  Family<Histogram>& extender_seconds =
      Histograms("berth_controller_extender_seconds", "Time from a request of kube-scheduler to the extender's answer");
  Gauge& extender_assumed =
      Gauges("berth_controller_extender_assumed_pods",
             "Pods for which the extender chose nodes, but has not seen the binding to a node yet")
          .Add({});

  Mutex mutex;
  Board kept BERTH_GUARDED_BY(mutex){
      registry,
      "berth_controller_orphans_kept",
      "Entries whose pods may be gone and that the controller does not free now, by reason"};
  Board pool_addresses BERTH_GUARDED_BY(mutex){
      registry, "berth_pool_addresses", "Addresses of a pool, from the pool's status"};
  Board pool_blocks BERTH_GUARDED_BY(mutex){registry, "berth_pool_blocks", "Blocks of a pool, from the pool's status"};
  Board node_addresses BERTH_GUARDED_BY(mutex){
      registry, "berth_node_addresses_held", "Addresses held in a node's blocks"};
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::SetLeading(bool is_leading) { families_->leading.Set(is_leading ? 1 : 0); }

void Metrics::SetClockDifference(std::chrono::milliseconds difference) {
  families_->clock_difference.Add({}).Set(std::chrono::duration<double>(difference).count());
}

void Metrics::WatchFailed(std::string_view kind) {
  families_->watch_failures.Add({{"kind", std::string(kind)}}).Increment();
}

void Metrics::WriteFailed(std::string_view code) {
  families_->write_failures.Add({{"code", std::string(code)}}).Increment();
}

void Metrics::Freed(std::string_view why) { families_->freed.Add({{"why", std::string(why)}}).Increment(); }

void Metrics::NodeWritten() { families_->nodes_written.Increment(); }

void Metrics::ExtenderAnswered(std::string_view verb, std::string_view result, std::chrono::nanoseconds took) {
  families_->extender_requests.Add({{"verb", std::string(verb)}, {"result", std::string(result)}}).Increment();
  families_->extender_seconds.Add({{"verb", std::string(verb)}}, SecondsBuckets())
      .Observe(std::chrono::duration<double>(took).count());
}

void Metrics::SetExtenderAssumed(std::size_t pods) { families_->extender_assumed.Set(static_cast<double>(pods)); }

void Metrics::FreedInUse(std::size_t count) { families_->freed_in_use.Increment(static_cast<double>(count)); }
void Metrics::PutBack() { families_->put_back.Increment(); }

void Metrics::PassEnded(std::chrono::nanoseconds took, const Decision& decision) {
  families_->pass.Observe(std::chrono::duration<double>(took).count());
  families_->actions.Set(static_cast<double>(decision.actions.size()));
  families_->due.Set(static_cast<double>(decision.orphans.due));
  std::size_t contested = 0;
  if (decision.contested) {
    for (const auto& [pool, addresses] : *decision.contested) contested += addresses.size();
  }
  families_->contested.Set(static_cast<double>(contested));
  families_->braked.Set(decision.orphans.is_braked ? 1 : 0);
  const Lock lock(families_->mutex);
  families_->kept.Clear();
  for (const auto& [why, count] : decision.orphans.kept)
    families_->kept.Set({{"why", why}}, static_cast<double>(count));
}

void Metrics::Look(const World& world) {
  std::map<std::string, std::size_t> held;
  for (const auto& [name, seen] : world.blocks()) {
    if (seen.block != nullptr && !seen.block->node.empty()) held[seen.block->node] += seen.entries.held;
  }
  const Lock lock(families_->mutex);
  families_->node_addresses.Clear();
  for (const auto& [node, count] : held) families_->node_addresses.Set({{"node", node}}, static_cast<double>(count));
  families_->pool_addresses.Clear();
  families_->pool_blocks.Clear();
  for (const auto& [name, pool] : world.pools) {
    const auto set = [&](const char* state, ipam::Uint128 count) BERTH_REQUIRES(families_->mutex) {
      families_->pool_addresses.Set({{"pool", name}, {"state", state}}, static_cast<double>(count));
    };
    set("total", pool.status.total);
    set("used", pool.status.used);
    set("free", pool.status.free);
    families_->pool_blocks.Set({{"pool", name}}, static_cast<double>(pool.status.blocks));
  }
}

std::string Metrics::Text() const {
  // Waits while another thread is between Clear and Set.
  const Lock lock(families_->mutex);
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace berth::reconciler
