// SPDX-License-Identifier: Apache-2.0
// The verbs of the Kubernetes API over an Api: JSON in, JSON or a typed error out.
//
// Writes are compare-and-swaps: a merge patch or a replacement carries metadata.resourceVersion, a deletion carries
// preconditions. Every write names the field manager "berth". None is ever repeated here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::k8sclient {

// Joins segments to a path and percent-encodes each: Path({"apis", "ipam.berth.dev", "v1alpha1", "ippools", name}).
[[nodiscard]] std::string Path(std::initializer_list<std::string_view> segments);

struct ListOptions {
  std::string field_selector = {};
  std::string label_selector = {};
  // Unset: consistent (about 100 ms after a write to another kind). "0": whatever the server has at hand. Another: see
  // resource_version_match.
  std::string resource_version = {};
  std::string resource_version_match = {};  // "", "NotOlderThan" or "Exact"
  int page_size = 500;                      // 0: everything in one answer
  std::string_view accept = kJson;
};

struct ObjectList {
  std::vector<nlohmann::json> items;  // without kind and apiVersion, as the server sends them
  std::string resource_version;       // of the list: where a watch goes on
};

// Unset members are not conditions.
struct DeletePreconditions {
  std::string uid = {};
  std::string resource_version = {};
};

// The object. Errors: those of Api::Call and of ToError; kInternal if the answer is no JSON object.
[[nodiscard]] Expected<nlohmann::json> Get(Api& api, const std::string& path, const CallOptions& options,
                                           std::string_view accept = kJson);

// The same with a query of one's own, such as resourceVersion=0: whatever the server has at hand.
[[nodiscard]] Expected<nlohmann::json> Get(Api& api, const Request& request, const CallOptions& options);

// Who takes a list item by item.
struct ListSink {
  std::function<void()> begin = [] {};  // also when the list begins anew: what came so far does not count
  std::function<void(nlohmann::json item)> item;
};

// Hands over the whole list, page by page and item by item, without ever holding more than one item of it. Returns the
// list's resource version. Errors: kGone if it changed too much between two pages, or if resource_version cannot be
// served. After an error, what was handed over is not the whole.
[[nodiscard]] Expected<std::string> ListEach(Api& api, const std::string& path, const ListOptions& list,
                                             const CallOptions& options, const ListSink& sink);

// The same in one piece, for lists that are short.
[[nodiscard]] Expected<ObjectList> List(Api& api, const std::string& path, const ListOptions& list,
                                        const CallOptions& options);

// The object as the server stored it. path is the collection's.
[[nodiscard]] Expected<nlohmann::json> Create(Api& api, const std::string& path, const nlohmann::json& object,
                                              const CallOptions& options);

// The object after the patch, or what `accept` makes of it. patch must hold metadata.resourceVersion unless
// last-writer-wins is meant.
[[nodiscard]] Expected<nlohmann::json> MergePatch(Api& api, const std::string& path, const nlohmann::json& patch,
                                                  const CallOptions& options, std::string_view accept = kJson);

// The object after the replacement (PUT). object must hold metadata.resourceVersion.
[[nodiscard]] Expected<nlohmann::json> Replace(Api& api, const std::string& path, const nlohmann::json& object,
                                               const CallOptions& options);

// Deletes in the background. An object with finalizers stays, with a deletionTimestamp: that too is success.
[[nodiscard]] Expected<void> Delete(Api& api, const std::string& path, const DeletePreconditions& preconditions,
                                    const CallOptions& options);

}  // namespace berth::k8sclient
