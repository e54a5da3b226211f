// SPDX-License-Identifier: Apache-2.0
// Sends requests to the API server, tries again after conflicts, and keeps intents.
#include "node/direct_store.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/resource_version.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "crds/pool.h"
#include "k8sclient/status.h"
#include "k8sclient/verbs.h"

namespace berth::node {

namespace {

using ipam::BlockView;
using nlohmann::json;

constexpr std::int64_t kJitterFirstMs = 20;
constexpr std::int64_t kJitterMaxMs = 640;
// Time limit of one request. Other calls of the node wait while a request hangs, and ipam.timeoutSeconds may be 600.
constexpr std::chrono::seconds kRequestMax{20};

Expected<BlockView> ToView(Expected<ipam::Block> block) {
  if (!block) return std::unexpected(block.error());
  return std::make_shared<const ipam::Block>(*std::move(block));
}

Expected<ipam::Block> Parse(const Expected<json>& object) {
  if (!object) return std::unexpected(object.error());
  return crds::ParseBlock(*object);
}

Expected<ipam::Block> GetBlock(k8sclient::Api& api, const std::string& name, const k8sclient::CallOptions& options) {
  const auto object = k8sclient::Get(api, k8sclient::ObjectPath(crds::kBlocksPath, name), options);
  if (!object) return std::unexpected(object.error().Within("get ipblock " + name));
  auto block = crds::ParseBlock(*object);
  // If berth cannot parse the block, kConflict makes an ADD leave this block alone and try another.
  if (!block) block.error().code = ErrorCode::kConflict;
  return block;
}

}  // namespace

Expected<BlockView> ReadBlock(k8sclient::Api& api, const std::string& name, const k8sclient::CallOptions& options) {
  return ToView(GetBlock(api, name, options));
}

Expected<BlockView> PatchBlock(k8sclient::Api& api, const ipam::Block& before, const ipam::Block& after,
                               const k8sclient::CallOptions& options, bool asks_for_all) {
  const auto answer = k8sclient::MergePatch(api,
                                            k8sclient::ObjectPath(crds::kBlocksPath, before.name),
                                            crds::BlockMergePatch(before, after),
                                            options,
                                            asks_for_all ? k8sclient::kJson : k8sclient::kPartialMetadata);
  if (!answer) return std::unexpected(answer.error().Within("patch ipblock " + before.name));
  auto written = asks_for_all ? Parse(answer) : crds::BlockAfterPatch(after, *answer);
  if (written && ParseVersion(written->resource_version) <= ParseVersion(before.resource_version)) {
    return Fail(ErrorCode::kInvalid,
                "patch ipblock " + before.name + ": the API server accepted the change, and stored nothing",
                "does a mutating admission webhook or policy put back what others change?");
  }
  return ToView(std::move(written));
}

// The intent of the patches that one Edit sends. The intent is on disk from before the first patch until the outcome of
// all patches is known. If an earlier call left an intent for the same block, this intent also covers that call's
// patch.
class DirectStore::Intent {
 public:
  // Reads the intent that an earlier call of the attachment left for the block. Errors: those of
  // NodeDirectory::ReadIntent.
  [[nodiscard]] static Expected<Intent> Of(const NodeDirectory& directory, const ipam::Attachment& attachment,
                                           const ipam::Block& block) {
    Intent intent(directory, attachment);
    if (attachment.empty()) return intent;
    const auto earlier = directory.ReadIntent(attachment, block);
    if (!earlier) return std::unexpected(earlier.error());
    if (!*earlier) return intent;
    intent.id_ = (*earlier)->id;
    intent.doubt_ =
        Doubt{.version = (*earlier)->block.resource_version,
              .error = {.code = ErrorCode::kUnknownOutcome,
                        .message = "the outcome of an earlier write of block " + block.name + " is not known",
                        .details = "the runtime tries the call again"}};
    return intent;
  }

  [[nodiscard]] Expected<void> Open(const ipam::Block& block) {
    if (attachment_.empty()) return {};
    auto id = directory_.OpenIntent(attachment_, block);
    if (!id) return std::unexpected(id.error());
    id_ = *std::move(id);
    return {};
  }

  [[nodiscard]] bool IsInDoubt() const { return doubt_.has_value(); }

  // The outcome of the patch is unknown. `version`: the resourceVersion that the patch names.
  void NoteUnknown(const std::string& version, const Error& error) { doubt_ = Doubt{version, error}; }

  // The block was seen at `version`. If the patch in doubt names another version, it has landed already or can never
  // land, because the API server compares versions.
  void NoteSeen(const std::string& version) {
    if (doubt_ && doubt_->version != version) doubt_.reset();
  }
  // A patch has succeeded, or the block is gone: a patch in doubt can no longer land.
  void NoteSettled() { doubt_.reset(); }

  // Closes the intent and returns `outcome`. If a write is in doubt, leaves the intent open and returns
  // kUnknownOutcome.
  [[nodiscard]] Expected<BlockView> Finish(Expected<BlockView> outcome) {
    if (doubt_) {
      Error error = doubt_->error;
      if (!outcome) error.details += (error.details.empty() ? "" : "; ") + ("then: " + outcome.error().message);
      error.code = ErrorCode::kUnknownOutcome;
      return std::unexpected(std::move(error));
    }
    if (!id_.empty()) {
      if (auto closed = directory_.CloseIntent(id_); !closed) return std::unexpected(closed.error());
    }
    return outcome;
  }

 private:
  struct Doubt {
    std::string version;
    Error error;
  };
  Intent(const NodeDirectory& directory, const ipam::Attachment& attachment)
      : directory_(directory), attachment_(attachment) {}

  const NodeDirectory& directory_;
  const ipam::Attachment& attachment_;
  std::string id_;
  std::optional<Doubt> doubt_;
};

DirectStore::DirectStore(k8sclient::Api& api, const NodeDirectory& directory, ipam::Runtime& runtime,
                         DirectStoreOptions options)
    : api_(api),
      directory_(directory),
      runtime_(runtime),
      options_(std::move(options)),
      recent_(directory_, options_.agent_instance.empty()) {}

k8sclient::CallOptions DirectStore::RequestOptions() const {
  k8sclient::CallOptions options = options_.call;
  options.deadline = std::min(options.deadline, std::chrono::steady_clock::now() + kRequestMax);
  return options;
}

Expected<BlockView> DirectStore::Seen(Expected<ipam::Block> block) const {
  if (!block) return std::unexpected(block.error());
  ipam::HideEntriesOfOthers(*block, options_.node);
  auto view = ToView(std::move(block));
  return (*view)->shared() ? options_.reuse(*std::move(view)) : *std::move(view);
}

Expected<HeldFile> DirectStore::BeginAttempt() const {
  if (options_.agent_instance.empty()) return HeldFile();
  return directory_.HoldNodeOwnership(options_.agent_instance);
}

Expected<std::vector<ipam::PoolView>> DirectStore::ReadPools(std::span<const std::string> names,
                                                             ipam::Freshness freshness) {
  const bool is_hint = freshness == ipam::Freshness::kHint;
  if (is_hint) {
    // In direct mode the caller already has the node's lock, so these pools do not become older while it waits for the
    // lock.
    if (auto recent = recent_.Pools(names)) return *std::move(recent);
  }
  const BootNanos begin = BootTimeNow();
  const auto objects = ReadPoolObjects(names, is_hint);
  if (!objects) return std::unexpected(objects.error());
  std::vector<ipam::PoolView> pools;
  for (const json& object : *objects) {
    auto pool = crds::ParsePool(object);
    if (!pool) return std::unexpected(pool.error());
    pools.push_back(std::make_shared<const ipam::Pool>(*std::move(pool)));
  }
  recent_.NotePools(*objects, begin);
  if (!is_hint) {
    for (const ipam::PoolView& pool : pools) latest_[pool->name] = pool;
  }
  return pools;
}

Expected<ipam::PoolView> DirectStore::PoolOf(const ipam::PoolView& pool, const BlockView& block) {
  // `pool` may come from the API server's cache, and may be older than the block.
  const auto read = latest_.find(pool->name);
  const ipam::PoolView& newest = read != latest_.end() && read->second->uid == pool->uid ? read->second : pool;
  if (recent_.IsPoolProved(block->uid, *newest)) return newest;
  const auto latest = ReadPools({{pool->name}}, ipam::Freshness::kLatest);
  if (!latest) return std::unexpected(latest.error());
  if (latest->empty() || latest->front()->uid != pool->uid) {
    return Fail(ErrorCode::kInvalid, "pool " + pool->name + " was deleted meanwhile");
  }
  recent_.NotePoolProved(block->uid, *latest->front());
  return latest->front();
}

Expected<std::vector<json>> DirectStore::ReadPoolObjects(std::span<const std::string> names, bool is_hint) {
  std::vector<json> objects;
  if (is_hint && names.size() > 1) {
    // One LIST for all pools, from the API server's cache.
    const auto list = k8sclient::List(api_, std::string(crds::kPoolsPath), {.resource_version = "0"}, RequestOptions());
    if (!list) return std::unexpected(list.error().Within("list ippools"));
    for (const json& object : list->items) {
      if (std::ranges::find(names, crds::NameOf(object)) != names.end()) objects.push_back(object);
    }
    return objects;
  }
  for (const std::string& name : names) {
    k8sclient::Request request{.path = k8sclient::ObjectPath(crds::kPoolsPath, name)};
    if (is_hint) request.query = {{"resourceVersion", "0"}};
    auto object = k8sclient::Get(api_, request, RequestOptions());
    if (!object && object.error().code == ErrorCode::kNotFound) break;
    if (!object) return std::unexpected(object.error().Within("get ippool " + name));
    objects.push_back(*std::move(object));
  }
  return objects;
}

Expected<ipam::Labels> DirectStore::ReadLabels(const std::string& path) {
  const k8sclient::Request request{
      .path = path, .query = {{"resourceVersion", "0"}}, .accept = k8sclient::kPartialMetadata};
  const auto object = k8sclient::Get(api_, request, RequestOptions());
  if (!object) return std::unexpected(object.error());
  return crds::LabelsOf(*object);
}

Expected<ipam::Labels> DirectStore::ReadNodeLabels() {
  auto labels = ReadLabels("/api/v1/nodes" + k8sclient::Path({options_.node}));
  if (labels) return labels;
  if (labels.error().code == ErrorCode::kNotFound) return ipam::Labels{};
  return std::unexpected(labels.error().Within("get node " + options_.node));
}

Expected<ipam::Labels> DirectStore::ReadNamespaceLabels(const std::string& name) {
  auto labels = ReadLabels("/api/v1/namespaces" + k8sclient::Path({name}));
  if (labels) return labels;
  return std::unexpected(labels.error().Within("get namespace " + name));
}

Expected<std::vector<BlockView>> DirectStore::ReadBlocks(ipam::BlockScope scope, ipam::Freshness freshness) {
  const bool is_own = scope == ipam::BlockScope::kOwn;
  if (is_own && freshness == ipam::Freshness::kHint && options_.recent != RecentUse::kNever) {
    auto recent = recent_.Take();
    const auto holds = [this](const BlockView& block) { return ipam::Find(*block, options_.attachment).has_value(); };
    const bool wants_held = options_.recent == RecentUse::kIfItHolds;
    if (recent && std::ranges::any_of(*recent, holds) == wants_held) return *std::move(recent);
  }
  const BootNanos begin = BootTimeNow();
  const std::string& node = is_own ? options_.node : std::string();
  k8sclient::ListOptions options{.field_selector = std::string(crds::kBlockNodeField) + "=" + node, .page_size = 0};
  if (freshness == ipam::Freshness::kHint) {
    options.resource_version = directory_.ReadVersion();
    if (!options.resource_version.empty()) options.resource_version_match = "NotOlderThan";
  }
  std::vector<BlockView> blocks;
  auto version = ListBlocks(options, blocks);
  if (!version && version.error().code == ErrorCode::kGone && !options.resource_version.empty()) {
    // The API server has never reached this version: its data was restored from a backup.
    directory_.WriteVersion("");
    options.resource_version.clear();
    options.resource_version_match.clear();
    version = ListBlocks(options, blocks);
  }
  if (!version) return std::unexpected(version.error().Within("list ipblocks"));
  if (options.resource_version.empty()) directory_.WriteVersion(*version);
  if (is_own) recent_.NoteAll(blocks, begin);
  return blocks;
}

Expected<std::string> DirectStore::ListBlocks(const k8sclient::ListOptions& list, std::vector<BlockView>& blocks) {
  const auto take = [&](const json& object) {
    auto block = Seen(crds::ParseBlock(object));
    if (block) {
      blocks.push_back(*std::move(block));
    } else {
      options_.on_unreadable(block.error());
    }
  };
  return k8sclient::ListEach(
      api_, std::string(crds::kBlocksPath), list, RequestOptions(), {.begin = [&] { blocks.clear(); }, .item = take});
}

Expected<std::vector<ipam::Prefix>> DirectStore::ReadBlockCidrs(const std::string& space) {
  std::vector<ipam::Prefix> cidrs;
  const auto take = [&](const json& object) {
    const auto identity = crds::ParseBlockName(crds::NameOf(object));
    if (identity && identity->space == space) cidrs.push_back(identity->cidr);
  };
  const auto listed =
      k8sclient::ListEach(api_,
                          std::string(crds::kBlocksPath),
                          {.resource_version = "0", .page_size = 0, .accept = k8sclient::kPartialMetadataList},
                          RequestOptions(),
                          {.begin = [&] { cidrs.clear(); }, .item = take});
  if (!listed) return std::unexpected(listed.error().Within("list ipblocks"));
  return cidrs;
}

bool DirectStore::WaitAfterConflict(const ipam::Block& block, int conflicts, std::chrono::milliseconds tried) {
  // Only the controller also writes a node's own block, and it does so rarely: try again at once. Many nodes write a
  // Shared block: each waits for a random time. The limit of this time grows with the number of conflicts, and is at
  // least four times the duration of the last attempt. If writers waited for less than an attempt takes, they would
  // conflict again and again while the API server is slow.
  if (!block.shared()) return runtime_.MayGoOn().has_value();
  constexpr int kDoublingsMax = 5;
  constexpr int kAttemptsSpread = 4;
  const std::int64_t grown_ms = std::min(kJitterMaxMs, kJitterFirstMs << std::min(conflicts, kDoublingsMax));
  const std::int64_t longest_ms =
      std::max(grown_ms, std::min(kJitterMaxMs, kAttemptsSpread * std::int64_t{tried.count()}));
  const auto wait_ms =
      kJitterFirstMs / 2 + static_cast<std::int64_t>(runtime_.Random(static_cast<ipam::Uint128>(longest_ms)));
  return runtime_.Wait(std::chrono::milliseconds(wait_ms));
}

Expected<BlockView> DirectStore::Edit(const BlockView& seen, const ipam::Change& change) {
  auto intent = Intent::Of(directory_, change.attachment, *seen);
  if (!intent) return std::unexpected(intent.error());
  BlockView base = seen;
  int conflicts = 0;
  bool was_lost = intent->IsInDoubt();
  while (true) {
    const auto began = std::chrono::steady_clock::now();
    if (base->resource_version.empty()) {
      auto read = Seen(GetBlock(api_, base->name, RequestOptions()));
      // If the node differs, the block was deleted, and a block with this name was created for another node.
      if (read && (*read)->node != seen->node) read = Fail(ErrorCode::kNotFound, "block " + base->name + " is gone");
      if (!read && read.error().code == ErrorCode::kNotFound) intent->NoteSettled();
      if (!read) return intent->Finish(std::move(read));
      base = *std::move(read);
      intent->NoteSeen(base->resource_version);
      // The block may contain a write that was in doubt. Once the intent is closed, every process that lists blocks
      // must see this write.
      directory_.RaiseVersion(base->resource_version);
    }
    // Begin after the wait that follows a conflict, so that the call does not hold `attempt` while it waits.
    auto attempt = BeginAttempt();
    if (!attempt) return std::unexpected(attempt.error());
    ipam::Block changed = *base;
    if (auto applied = ipam::Apply(change, changed); !applied) return intent->Finish(std::unexpected(applied.error()));
    ipam::TrimStandby(changed);
    if (changed == *base) {
      if (!change.fence) {
        if (!base->shared()) recent_.NoteWritten(base);
        directory_.RaiseVersion(base->resource_version);
        return intent->Finish(base);
      }
      ipam::Touch(changed);
    }
    if (auto opened = intent->Open(*base); !opened) return std::unexpected(opened.error());
    if (!base->shared()) recent_.BeginWrite(base->name);
    auto written = PatchBlock(api_, *base, changed, RequestOptions());
    if (written) {
      if (!base->shared()) recent_.NoteWritten(*written);
      intent->NoteSettled();
      directory_.WriteVersion((*written)->resource_version);
      return intent->Finish(std::move(written));
    }
    const ErrorCode code = written.error().code;
    if (code == ErrorCode::kNotFound) intent->NoteSettled();
    if (code == ErrorCode::kUnknownOutcome) intent->NoteUnknown(base->resource_version, written.error());
    if (code != ErrorCode::kConflict && code != ErrorCode::kUnknownOutcome) return intent->Finish(std::move(written));
    attempt->Close();
    const auto tried = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
    // Usually one connection was cut: if the answer is lost, read the block, and write once more.
    const bool again = code == ErrorCode::kConflict ? WaitAfterConflict(*base, conflicts++, tried)
                                                    : !std::exchange(was_lost, true) && runtime_.MayGoOn();
    if (!again) return intent->Finish(std::move(written));
    ipam::Block named = *base;
    named.resource_version.clear();
    base = std::make_shared<const ipam::Block>(std::move(named));
  }
}

Expected<BlockView> DirectStore::Create(const ipam::Block& block) {
  const auto attempt = BeginAttempt();
  if (!attempt) return std::unexpected(attempt.error());
  if (!block.shared()) recent_.BeginWrite(block.name);
  const auto object =
      k8sclient::Create(api_, std::string(crds::kBlocksPath), crds::BlockToJson(block), RequestOptions());
  auto created = Seen(Parse(object));
  if (!object) {
    Error failed = object.error().Within("create ipblock " + block.name);
    // The block may exist, at an unknown version. Forget the known version, so that the next list is a consistent one.
    if (failed.code == ErrorCode::kUnknownOutcome) directory_.WriteVersion("");
    if (failed.code != ErrorCode::kAlreadyExists) return std::unexpected(std::move(failed));
    created = Seen(GetBlock(api_, block.name, RequestOptions()));
    if (created && ((*created)->node != block.node || (*created)->pool_uid != block.pool_uid)) {
      return std::unexpected(std::move(failed));
    }
  }
  if (!created) return created;
  if (object) directory_.WriteVersion((*created)->resource_version);
  // A block that existed already may contain a write that was in doubt, and every process that lists blocks must see
  // it.
  if (!object) directory_.RaiseVersion((*created)->resource_version);
  if (!block.shared()) recent_.NoteWritten(*created);
  return created;
}

Expected<std::vector<ipam::OpenIntent>> DirectStore::ReadOpenIntents(const ipam::Attachment& attachment) {
  return directory_.ReadIntents(attachment + ".");
}

Expected<void> DirectStore::CloseIntent(const ipam::OpenIntent& intent) { return directory_.CloseIntent(intent.id); }

}  // namespace berth::node
