// SPDX-License-Identifier: Apache-2.0
// Prints the agent's blocks as JSON, its metrics, and its log lines about blocks.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "cni/args.h"
#include "cni/attachment.h"
#include "node/netns.h"

namespace berth::agent {

std::string Agent::DebugBlocks() const {
  nlohmann::json blocks = nlohmann::json::array();
  for (const ipam::BlockView& block : own_.Snapshot()) {
    nlohmann::json allocations = nlohmann::json::object();
    for (const auto& [offset, entry] : block->allocations) allocations[block->cidr.At(offset).ToString()] = entry;
    blocks.push_back({{"name", block->name},
                      {"pool", block->pool},
                      {"cidr", block->cidr.ToString()},
                      {"resourceVersion", block->resource_version},
                      {"agent", block->agent},
                      {"used", block->used()},
                      {"free", block->free},
                      {"deleting", block->deleting},
                      {"standby", block->standby},
                      {"allocations", std::move(allocations)}});
  }
  const nlohmann::json document = {{"node", options_.node},
                                   {"instance", own_.instance()},
                                   {"ready", IsReady()},
                                   {"journal", has_taken_over_ ? journal_->Pending() : std::vector<ipam::Attachment>()},
                                   {"handedOut", own_.HandedOut()},
                                   {"blocks", std::move(blocks)}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string Agent::MetricsText() {
  Metrics::Found found{.journal = has_taken_over_ ? journal_->Size() : 0,
                       .handed_out = own_.HandedOut().size(),
                       .clock_difference = server_clock_.Difference()};
  for (const ipam::BlockView& block : own_.Snapshot()) {
    Metrics::Found::Pool& pool = found.pools[block->pool];
    ++pool.blocks;
    pool.used += block->used();
    pool.free += block->free;
  }
  return metrics_.Text(found);
}

void Agent::ReportOddBlocks() const {
  const std::vector<ipam::PoolView> pools = view_.AllPools();
  for (const ipam::BlockView& block : own_.Snapshot()) {
    const auto pool = std::ranges::find(pools, block->pool_uid, &ipam::Pool::uid);
    if (pool == pools.end() || ipam::FitsPool(*block, **pool)) continue;
    spdlog::error(
        "block does not fit its pool, so no pod gets an address of the block block={} pool={} subnet={} block_size={}",
        block->name,
        block->pool,
        (*pool)->subnet.ToString(),
        (*pool)->BlockLength());
  }
}

namespace {

// A tenant may choose a network's name of any length, and must not fill the log.
constexpr std::size_t kLoggedNameMax = 200;

struct Sentence {
  spdlog::level::level_enum level;
  std::string_view text;  // empty: not logged
};

Sentence SentenceOf(agent_core::Report::Kind kind) {
  using enum agent_core::Report::Kind;
  switch (kind) {
    case kBatch:
      break;
    case kConflict:
      return {spdlog::level::debug, "the block has changed, so the agent decides again"};
    case kInDoubt:
      return {spdlog::level::warn, "the answer to a patch of a block was lost, so the agent reads the block again"};
    case kHandedOutRefused:
      return {spdlog::level::err, "the API server refuses the entry of an address that a pod has, trying again"};
    case kHandedOutLost:
      return {spdlog::level::err,
              "cannot record an address that a pod has, because the block is gone or holds another entry for this "
              "address: end the pod"};
    case kStandbyNotKept:
      return {spdlog::level::warn,
              "the API server drops standby, so every ADD waits for its write: apply the CRDs of crds/ and restart "
              "this agent"};
    case kVanished:
      return {spdlog::level::err, "another program removed an entry, so the agent writes the entry again"};
    case kStillInUse:
      return {spdlog::level::warn,
              "the controller freed the address of a container that still exists, so the agent writes the entry again: "
              "to free the address, end the container's processes (\"ip netns pids NS\" lists them; NS is the text "
              "behind ns= in the entry) and delete its network namespace"};
    case kFreedRightly:
      return {spdlog::level::info,
              "the controller freed an address, and the network namespace of its container is gone"};
    case kWentBack:
      return {spdlog::level::err,
              "the API server has an older state than before, as after a restore from a backup: the agent writes the "
              "lost entries again"};
    case kMetAnother:
      return {spdlog::level::err, "an unknown agent wrote a block of this node, so this agent writes the block again"};
  }
  return {spdlog::level::off, ""};
}

}  // namespace

void Agent::LogFailed(const cni::Environment& environment, const std::string& network, const Error& error,
                      std::chrono::nanoseconds took) {
  // CHECK and GC may come without CNI_ARGS, and a DEL must not fail because of them.
  const auto args = cni::ParseArgs(environment.args);
  spdlog::warn(
      "call failed verb={} pod={} network={} container={} interface={} attachment={} code={} err=\"{}\" details=\"{}\" "
      "took_us={}",
      cni::ToString(environment.verb),
      Quoted(args && !args->pod_name.empty() ? args->pod_namespace + "/" + args->pod_name : ""),
      network.substr(0, kLoggedNameMax),
      environment.container_id,
      environment.ifname,
      cni::MakeAttachment(network, environment.container_id, environment.ifname),
      CniCode(error.code),
      error.message,
      error.details,
      std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

// After a failed request, an answered DEL may wait for long until a patch carries it. If the machine loses power
// meanwhile, only a synced journal has the DEL: GoAway syncs it.
void Agent::NoteFailedRequest(const Error& error) {
  if (IsAway(error.code)) GoAway();
}

void Agent::Tell(const agent_core::Report& report) {
  using Kind = agent_core::Report::Kind;
  if (report.kind == Kind::kConflict) metrics_.Conflict();
  if (report.kind == Kind::kBatch) metrics_.Batch(report.count);
  if (report.kind == Kind::kInDoubt) metrics_.InDoubt();
  if (report.kind == Kind::kVanished) metrics_.Reasserted();
  if (report.kind == Kind::kStillInUse) metrics_.StillInUse();
  if (report.kind == Kind::kWentBack) {
    view_.Distrust();
    wants_resync_ = true;
  }
  if (const Sentence sentence = SentenceOf(report.kind); !sentence.text.empty()) {
    std::string facts;
    if (!report.block.empty()) facts += " block=" + report.block;
    if (report.kind == Kind::kMetAnother) facts += " by=" + report.text + " instance=" + own_.instance();
    if (report.kind == Kind::kStillInUse) facts += " folder=" + options_.netns_dir;
    if (!report.text.empty() && report.kind != Kind::kMetAnother) facts += " entry=\"" + report.text + "\"";
    if (report.error) facts += " err=\"" + report.error->message + "\"";
    spdlog::log(sentence.level, "{}{}", sentence.text, facts);
  }
  if (report.kind == Kind::kWentBack) Wake();
}

void Agent::MarkDeleted(const ipam::Attachment& attachment, node::BootNanos started) {
  const auto marked = directory_.MarkDeleted(attachment, started);
  const bool was_told = told_marks_.exchange(!marked);
  if (marked || was_told) return;
  spdlog::error(
      "cannot record DELs under /run/berth: an ADD that comes after the DEL of its container may take an address, "
      "which then stays held until the controller frees it err=\"{}\" details=\"{}\"",
      marked.error().message,
      marked.error().details);
}

std::string Agent::NetnsToRecord(const std::string& path) {
  std::string name = node::NetnsName(path);
  if (!name.empty() && node::LookForNetns(options_.netns_dir, name) == node::NetnsState::kThere) return name;
  if (path.empty()) return {};
  metrics_.NetnsUnseen();
  if (!told_netns_.exchange(true)) {
    spdlog::warn(
        "a container's network namespace is not in the folder where this agent looks for it, so the agent can't tell "
        "whether a freed address is still in use: mount the runtime's folder of network namespaces at this path "
        "netns={} folder={}",
        Quoted(path),
        options_.netns_dir);
  }
  return {};
}

}  // namespace berth::agent
