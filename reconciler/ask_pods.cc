// SPDX-License-Identifier: Apache-2.0
// Sends one GET of a pod, or one list of a node's pods, for each question.
#include "reconciler/ask_pods.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "k8sclient/verbs.h"
#include "reconciler/read_holders.h"
#include "reconciler/suspects.h"

namespace berth::reconciler {

using nlohmann::json;

Expected<std::optional<SeenPod>> AskForPod(k8sclient::Api& api, const std::string& name_space, const std::string& name,
                                           const k8sclient::CallOptions& options) {
  auto object = k8sclient::Get(api, PodPath(name_space, name), options);
  if (!object && object.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!object) return std::unexpected(std::move(object.error()));
  auto pod = ReadPod(*std::move(object));
  if (!pod) return std::unexpected(std::move(pod.error()));
  return *std::move(pod);
}

Expected<bool> IsPodGone(k8sclient::Api& api, const FreedEntry& one, const ipam::Address& address,
                         const k8sclient::CallOptions& options) {
  if (!CanBePod(one.entry)) return Fail(ErrorCode::kInvalid, "no pod can have the name " + Quoted(one.entry.pod));
  const auto pod = AskForPod(api, one.entry.pod_namespace, one.entry.pod, options);
  if (!pod) return std::unexpected(pod.error());
  if (!*pod) return true;
  const bool is_another = !one.entry.uid.empty() && (*pod)->identity() != one.entry.uid;
  const bool has_others = one.was_replaced && (*pod)->HasOthersThan(address);
  return is_another || has_others || (one.was_terminal && (*pod)->is_terminal);
}

Expected<bool> HasLostAddress(k8sclient::Api& api, const LostEntry& one, const k8sclient::CallOptions& options) {
  const auto pod = AskForPod(api, one.entry.pod_namespace, one.entry.pod, options);
  if (!pod) return std::unexpected(pod.error());
  return *pod && (*pod)->identity() == one.entry.uid && (*pod)->node == one.node && (*pod)->HasOwnAddress() &&
         !(*pod)->HasOthersThan(one.address);
}

Expected<std::vector<SeenPod>> ReadPodsOf(k8sclient::Api& api, const std::string& node,
                                          const k8sclient::CallOptions& options) {
  std::vector<SeenPod> pods;
  const auto take = [&pods](const json& object) {
    auto pod = ReadPod(object);
    if (pod) return pods.push_back(*std::move(pod));
    spdlog::error("pod cannot be read, ignoring it err={}", Quoted(pod.error().message));
  };
  const auto version = k8sclient::ListEach(api,
                                           std::string(kPodsPath),
                                           // Some API servers answer a list with a limit from etcd, and read all pods
                                           // of the cluster for it. They answer a list without a limit from their
                                           // cache.
                                           {.field_selector = "spec.nodeName=" + node, .page_size = 0},
                                           options,
                                           {.begin = [&pods] { pods.clear(); }, .item = take});
  if (!version) return std::unexpected(version.error());
  return pods;
}

}  // namespace berth::reconciler
