// SPDX-License-Identifier: Apache-2.0
// Defines the agent's metrics, and prints their text.
#include "agent/metrics.h"

#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace berth::agent {

namespace {

using Counters = prometheus::Family<prometheus::Counter>;
using Gauges = prometheus::Family<prometheus::Gauge>;
using Histograms = prometheus::Family<prometheus::Histogram>;
using prometheus::Registry;

Counters& AddCounters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Gauges& AddGauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Histograms& AddHistograms(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

const std::vector<double>& SecondsBuckets() {
  static const std::vector<double> kEdges = {
      0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 5.0, 10.0, 25.0};
  return kEdges;
}

const std::vector<double>& BatchBuckets() {
  static const std::vector<double> kEdges = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  return kEdges;
}

}  // namespace

struct Metrics::Families {
  Registry registry;
  Histograms& seconds =
      AddHistograms(registry, "berth_agent_call_seconds", "Time from a CNI call's arrival to its answer");
  Counters& calls =
      AddCounters(registry, "berth_agent_calls_total", "CNI calls answered, by CNI error code (0: success)");
  prometheus::Counter& conflicts =
      AddCounters(registry, "berth_agent_conflicts_total",
                  "Block patches that the API server refused because the block had changed")
          .Add({});
  prometheus::Histogram& batch =
      AddHistograms(registry, "berth_agent_batch_changes", "Changes that one block patch carried")
          .Add({}, BatchBuckets());
  prometheus::Counter& in_doubt =
      AddCounters(registry, "berth_agent_writes_in_doubt_total", "Block patches whose answer was lost").Add({});
  prometheus::Counter& still_in_use = AddCounters(registry, "berth_agent_freed_entries_in_use_total",
                                                  "Entries that the agent wrote again, because the controller had "
                                                  "freed them while the container's network namespace was still there")
                                          .Add({});
  prometheus::Counter& netns_unseen =
      AddCounters(registry, "berth_agent_netns_unseen_total",
                  "ADDs whose network namespace is not in the folder of --netns-dir: if the controller frees their "
                  "addresses, the agent cannot see whether the addresses are still in use")
          .Add({});
  prometheus::Counter& reasserted =
      AddCounters(registry, "berth_agent_entries_put_back_total",
                  "Entries that the agent wrote again, because another program had removed them")
          .Add({});
  Counters& claims = AddCounters(registry, "berth_agent_claims_total", "Blocks claimed in advance");
  prometheus::Gauge& waiting =
      AddGauges(registry, "berth_agent_calls_waiting", "Calls accepted and not answered yet").Add({});
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::Call(const std::string& verb, std::uint32_t code, std::chrono::nanoseconds took) {
  families_->calls.Add({{"verb", verb}, {"code", std::to_string(code)}}).Increment();
  families_->seconds.Add({{"verb", verb}}, SecondsBuckets()).Observe(std::chrono::duration<double>(took).count());
}

void Metrics::Conflict() { families_->conflicts.Increment(); }
void Metrics::Batch(std::size_t changes) { families_->batch.Observe(static_cast<double>(changes)); }
void Metrics::InDoubt() { families_->in_doubt.Increment(); }
void Metrics::StillInUse() { families_->still_in_use.Increment(); }
void Metrics::NetnsUnseen() { families_->netns_unseen.Increment(); }
void Metrics::Reasserted() { families_->reasserted.Increment(); }

void Metrics::ClaimedAhead(const std::string& pool) { families_->claims.Add({{"pool", pool}}).Increment(); }

void Metrics::SetCallsWaiting(std::size_t count) { families_->waiting.Set(static_cast<double>(count)); }

std::string Metrics::Text(const Found& found) const {
  Registry registry;
  const auto number = [](auto value) { return static_cast<double>(value); };
  AddGauges(registry,
            "berth_agent_handed_out_pending",
            "Addresses that the agent gave to pods, but has not written entries for yet")
      .Add({})
      .Set(number(found.handed_out));
  AddGauges(registry,
            "berth_agent_journal_pending",
            "DELs that the agent has answered, but not written to the API server yet")
      .Add({})
      .Set(number(found.journal));
  Gauges& blocks = AddGauges(registry, "berth_agent_blocks", "Blocks of this node");
  Gauges& addresses = AddGauges(registry, "berth_agent_addresses", "Addresses in this node's blocks");
  for (const auto& [name, pool] : found.pools) {
    blocks.Add({{"pool", name}}).Set(number(pool.blocks));
    addresses.Add({{"pool", name}, {"state", "used"}}).Set(number(pool.used));
    addresses.Add({{"pool", name}, {"state", "free"}}).Set(number(pool.free));
  }
  Gauges& clock = AddGauges(registry,
                            "berth_clock_difference_seconds",
                            "This machine's clock minus the API server's clock, accurate to about a second");
  if (found.clock_difference) clock.Add({}).Set(std::chrono::duration<double>(*found.clock_difference).count());
  const prometheus::TextSerializer serializer;
  return serializer.Serialize(families_->registry.Collect()) + serializer.Serialize(registry.Collect());
}

}  // namespace berth::agent
