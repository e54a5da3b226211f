// SPDX-License-Identifier: Apache-2.0
// The resourceVersion of a list is the version at which the API server answered, whatever Leases the list contains.
#include "reconciler/ask_leases.h"

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "k8sclient/resource_version.h"
#include "k8sclient/text_at.h"
#include "k8sclient/verbs.h"
#include "reconciler/read_holders.h"

namespace berth::reconciler {

Expected<void> ReadLeasesVersion(k8sclient::Api& api, const Now& now, const k8sclient::CallOptions& options,
                                 ControllerState& state) {
  const auto list = k8sclient::Get(api, {.path = std::string(kNodeLeasesPath), .query = {{"limit", "1"}}}, options);
  if (!list) return std::unexpected(list.error());
  const std::uint64_t version =
      k8sclient::ParseVersion(k8sclient::TextAt(k8sclient::ValueAt(*list, "metadata"), "resourceVersion"));
  if (version == 0) return Fail(ErrorCode::kInternal, "the list of Leases has no resourceVersion");
  state.leases = ControllerState::LeasesAsked{.asked = now.steady, .version = version};
  return {};
}

}  // namespace berth::reconciler
