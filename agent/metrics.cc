// SPDX-License-Identifier: Apache-2.0
// The families of metrics, and their text.
#include "agent/metrics.h"

#include <map>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/mutex.h"

namespace berth::agent {

namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

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
  prometheus::Registry registry;
  prometheus::Family<prometheus::Histogram>& seconds = BuildHistogram()
                                                           .Name("berth_agent_call_seconds")
                                                           .Help("Time from a CNI call's arrival to its answer")
                                                           .Register(registry);
  prometheus::Family<prometheus::Counter>& calls = BuildCounter()
                                                       .Name("berth_agent_calls_total")
                                                       .Help("CNI calls answered, by CNI error code (0: success)")
                                                       .Register(registry);
  prometheus::Counter& conflicts = BuildCounter()
                                       .Name("berth_agent_conflicts_total")
                                       .Help("Block patches that the API server refused because the block had changed")
                                       .Register(registry)
                                       .Add({});
  prometheus::Histogram& batch = BuildHistogram()
                                     .Name("berth_agent_batch_changes")
                                     .Help("Changes that one block patch carried")
                                     .Register(registry)
                                     .Add({}, BatchBuckets());
  prometheus::Counter& in_doubt = BuildCounter()
                                      .Name("berth_agent_writes_in_doubt_total")
                                      .Help("Block patches whose answer was lost")
                                      .Register(registry)
                                      .Add({});
  prometheus::Counter& still_in_use =
      BuildCounter()
          .Name("berth_agent_freed_entries_in_use_total")
          .Help(
              "Entries that the agent wrote again, because the controller had freed them while "
              "the container's network namespace was still there")
          .Register(registry)
          .Add({});
  prometheus::Counter& netns_unseen = BuildCounter()
                                          .Name("berth_agent_netns_unseen_total")
                                          .Help(
                                              "ADDs whose network namespace is not in the folder of --netns-dir: if "
                                              "the controller frees their addresses, "
                                              "the agent cannot see whether the addresses are still in use")
                                          .Register(registry)
                                          .Add({});
  prometheus::Counter& reasserted =
      BuildCounter()
          .Name("berth_agent_reasserted_entries_total")
          .Help("Entries that the agent wrote again, because another program had removed them")
          .Register(registry)
          .Add({});
  prometheus::Family<prometheus::Counter>& claims =
      BuildCounter().Name("berth_agent_claims_total").Help("Blocks claimed in advance").Register(registry);
  prometheus::Gauge& waiting = BuildGauge()
                                   .Name("berth_agent_calls_waiting")
                                   .Help("Calls accepted and not answered yet")
                                   .Register(registry)
                                   .Add({});
  prometheus::Gauge& handed_out =
      BuildGauge()
          .Name("berth_agent_handed_out_pending")
          .Help("Addresses that the agent gave to pods, but has not written entries for yet")
          .Register(registry)
          .Add({});
  prometheus::Gauge& journal = BuildGauge()
                                   .Name("berth_agent_journal_pending")
                                   .Help("DELs that the agent has answered, but not written to the API server yet")
                                   .Register(registry)
                                   .Add({});
  prometheus::Family<prometheus::Gauge>& blocks =
      BuildGauge().Name("berth_agent_blocks").Help("Blocks of this node").Register(registry);
  prometheus::Family<prometheus::Gauge>& addresses =
      BuildGauge().Name("berth_agent_addresses").Help("Addresses in this node's blocks").Register(registry);

  prometheus::Family<prometheus::Gauge>& clock_difference =
      BuildGauge()
          .Name("berth_clock_difference_seconds")
          .Help("This machine's clock minus the API server's clock, accurate to about a second")
          .Register(registry);

  Mutex mutex;
  std::vector<prometheus::Gauge*> block_gauges BERTH_GUARDED_BY(mutex);
  std::vector<prometheus::Gauge*> address_gauges BERTH_GUARDED_BY(mutex);
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
void Metrics::SetHandedOut(std::size_t pending) { families_->handed_out.Set(static_cast<double>(pending)); }
void Metrics::SetJournal(std::size_t pending) { families_->journal.Set(static_cast<double>(pending)); }
void Metrics::SetClockDifference(std::chrono::milliseconds difference) {
  families_->clock_difference.Add({}).Set(std::chrono::duration<double>(difference).count());
}

void Metrics::BeginPools() {
  const Lock lock(families_->mutex);
  for (prometheus::Gauge* gauge : families_->block_gauges) families_->blocks.Remove(gauge);
  for (prometheus::Gauge* gauge : families_->address_gauges) families_->addresses.Remove(gauge);
  families_->block_gauges.clear();
  families_->address_gauges.clear();
}

void Metrics::Pool(const std::string& pool, std::size_t blocks, std::size_t used, std::size_t free) {
  const Lock lock(families_->mutex);
  const auto set = [](prometheus::Gauge& gauge, std::size_t value) {
    gauge.Set(static_cast<double>(value));
    return &gauge;
  };
  families_->block_gauges.push_back(set(families_->blocks.Add({{"pool", pool}}), blocks));
  families_->address_gauges.push_back(set(families_->addresses.Add({{"pool", pool}, {"state", "used"}}), used));
  families_->address_gauges.push_back(set(families_->addresses.Add({{"pool", pool}, {"state", "free"}}), free));
}

std::string Metrics::Text() const { return prometheus::TextSerializer().Serialize(families_->registry.Collect()); }

}  // namespace berth::agent
