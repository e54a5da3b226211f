// SPDX-License-Identifier: Apache-2.0
// One block in memory and its merge patches.
#include "bench/raw_block.h"

#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/status.h"
#include "k8sclient/verbs.h"

namespace berth::bench {

namespace {

k8sclient::CallOptions InTime() { return k8sclient::CallOptions::Within(std::chrono::seconds(25)); }

// This may be any time, because no address of the block cools.
constexpr std::int64_t kNowMs = 1'795'251'446'220;

// Returns an attachment as long as those of cni::MakeAttachment.
std::string AttachmentFor(const std::string& container_id) { return "26992702a01b-" + container_id.substr(0, 16); }

// Finds the version without a JSON parser, which would cost time: the client needs nothing else of the answer.
std::string ResourceVersionIn(const std::string& object) {
  constexpr std::string_view kKey = "\"resourceVersion\":\"";
  const std::size_t begin = object.find(kKey);
  if (begin == std::string::npos) return {};
  const std::size_t text = begin + kKey.size();
  return object.substr(text, object.find('"', text) - text);
}

}  // namespace

Expected<std::unique_ptr<RawBlock>> RawBlock::Create(k8sclient::Api& api, const ipam::Pool& pool,
                                                     const ipam::Prefix& cidr, const std::string& node) {
  std::unique_ptr<RawBlock> raw(new RawBlock(api, pool));
  const auto object = k8sclient::Create(
      api, std::string(crds::kBlocksPath), crds::BlockToJson(ipam::NewBlock(pool, cidr, node)), InTime());
  if (!object) return std::unexpected(object.error().Within("create block " + cidr.ToString()));
  auto block = crds::ParseBlock(*object);
  if (!block) return std::unexpected(block.error());
  raw->block_ = *std::move(block);
  return raw;
}

Expected<void> RawBlock::Add(const std::string& container_id) {
  ipam::Block after = block_;
  ipam::HeldEntry entry;
  entry.pod_namespace = "default";
  entry.pod = "web-64758b8bf-" + container_id.substr(0, 5);
  entry.uid = container_id.substr(0, 8) + "-88e7-49be-a27a-77d8" + container_id.substr(0, 8);
  entry.attachment = AttachmentFor(container_id);
  entry.interface = "eth0";
  entry.since_ms = kNowMs;
  const auto taken = ipam::Take(after, pool_, std::move(entry), std::nullopt, kNowMs);
  if (!taken) return std::unexpected(taken.error());
  return Patch(std::move(after));
}

Expected<void> RawBlock::Del(const std::string& container_id) {
  ipam::Block after = block_;
  if (!ipam::Release(after, AttachmentFor(container_id), kNowMs)) {
    return Fail(ErrorCode::kNotFound, container_id + " has no address");
  }
  return Patch(std::move(after));
}

Expected<void> RawBlock::Patch(ipam::Block after) {
  const k8sclient::Request request{.method = k8sclient::Method::kPatch,
                                   .path = std::string(crds::kBlocksPath) + "/" + block_.name,
                                   .query = {{"fieldManager", "berth"}},
                                   .body = crds::BlockMergePatch(block_, after).dump(),
                                   .content_type = k8sclient::kMergePatch,
                                   .accept = k8sclient::kPartialMetadata};
  const auto response = api_.Call(request, InTime());
  if (!response) return std::unexpected(response.error());
  if (!response->ok()) return std::unexpected(k8sclient::ToError(request, *response));
  block_ = std::move(after);
  block_.has_managed_fields = false;  // the patch has removed them
  block_.resource_version = ResourceVersionIn(response->body);
  return {};
}

}  // namespace berth::bench
