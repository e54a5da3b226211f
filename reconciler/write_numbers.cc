// SPDX-License-Identifier: Apache-2.0
// Sends one merge patch.
#include "reconciler/write_numbers.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "crds/quantity.h"
#include "k8sclient/verbs.h"
#include "reconciler/perform.h"
#include "reconciler/read_holders.h"

namespace berth::reconciler {

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

}  // namespace berth::reconciler
