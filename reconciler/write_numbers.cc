// SPDX-License-Identifier: Apache-2.0
// One merge patch, and one list.
#include "reconciler/write_numbers.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "crds/quantity.h"
#include "k8sclient/verbs.h"
#include "reconciler/perform.h"
#include "reconciler/read_holders.h"

namespace berth::reconciler {

using ipam::Expected;
using nlohmann::json;

Expected<SeenNode> WriteNumbers(k8sclient::Api& api, const ShowNumbers& action, const k8sclient::CallOptions& options) {
  json numbers = json::object();
  for (const auto& [resource, number] : action.numbers) {
    json& value = numbers[std::string(crds::kResourcePrefix) + resource];
    if (number) value = std::to_string(*number);
  }
  const json patch = {{"metadata", {{"resourceVersion", action.resource_version}}},
                      {"status", {{"capacity", numbers}, {"allocatable", numbers}}}};
  auto patched = k8sclient::MergePatch(api, ObjectPath(kNodesPath, action.node) + "/status", patch, options);
  if (!patched) return std::unexpected(std::move(patched.error()));
  spdlog::info("address counts of a Node written node={} numbers={}", action.node, numbers.dump());
  return ReadNode(*std::move(patched));
}

Expected<std::vector<SeenPod>> ReadPodsOf(k8sclient::Api& api, const std::string& node,
                                          const k8sclient::CallOptions& options) {
  std::vector<SeenPod> pods;
  const auto take = [&pods](const json& object) {
    auto pod = ReadPod(object);
    if (pod) return pods.push_back(*std::move(pod));
    spdlog::error("pod cannot be read, ignoring it err={}", ipam::Quoted(pod.error().message));
  };
  const auto version = k8sclient::ListEach(api,
                                           std::string(kPodsPath),
                                           {.field_selector = "spec.nodeName=" + node},
                                           options,
                                           {.begin = [&pods] { pods.clear(); }, .item = take});
  if (!version) return std::unexpected(version.error());
  return pods;
}

}  // namespace berth::reconciler
