// SPDX-License-Identifier: Apache-2.0
// The verbs of the Kubernetes API: the caller passes JSON, and gets JSON or a typed error.
//
// A caller makes a write a compare-and-swap: it puts metadata.resourceVersion into a merge patch, and gives a deletion
// preconditions. Creations and patches name the field manager "berth". The verbs repeat no write.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::k8sclient {

// Percent-encodes each segment and joins the segments to a path: Path({"apis", "ipam.berth.dev", "v1alpha1", "ippools",
// name}).
[[nodiscard]] std::string Path(std::initializer_list<std::string_view> segments);
// The path of one object of a collection.
[[nodiscard]] std::string ObjectPath(std::string_view collection, std::string_view name);

struct ListOptions {
  std::string field_selector = {};
  // Empty: a consistent list (about 100 ms if the last write changed another kind). "0": from the server's cache, of
  // any age. Another version: see resource_version_match.
  std::string resource_version = {};
  std::string resource_version_match = {};  // "", "NotOlderThan" or "Exact"
  int page_size = 500;                      // 0: the whole list in one answer
  std::string_view accept = kJson;
  // If set, each page must arrive within this time, or within ten times as much if it is the whole list because the
  // server has forgotten the first page's version. CallOptions::deadline limits the whole list.
  std::optional<std::chrono::milliseconds> page_max = {};
  Clock* clock = &RealClock();  // measures page_max
};

struct ObjectList {
  std::vector<nlohmann::json> items;  // the server sends items without kind and apiVersion
  std::string resource_version;       // version of the list; a watch can begin there
};

// An empty member is no condition.
struct DeletePreconditions {
  std::string uid = {};
  std::string resource_version = {};
};

// Returns the object. Errors: those of Api::Call and of ToError; kInternal (the answer is not a JSON object).
[[nodiscard]] Expected<nlohmann::json> Get(Api& api, const std::string& path, const CallOptions& options,
                                           std::string_view accept = kJson);

// Like Get above, with the caller's query, such as resourceVersion=0 for a read from the server's cache.
[[nodiscard]] Expected<nlohmann::json> Get(Api& api, const Request& request, const CallOptions& options);

// Takes a list item by item.
struct ListSink {
  std::function<void()> begin = [] {};  // if called again, the list begins again and the items so far do not count
  std::function<void(nlohmann::json item)> item;
};

// Passes the whole list to the sink, page by page and item by item, with one item in memory at a time. Returns the
// list's resourceVersion. If the server forgets the list's state between two pages, ListEach begins again, with the
// whole list in one answer. Errors: those of Get; kGone (the server cannot serve resource_version). After an error, the
// sink may have got a part of the list.
[[nodiscard]] Expected<std::string> ListEach(Api& api, const std::string& path, const ListOptions& list,
                                             const CallOptions& options, const ListSink& sink);

// Like ListEach, but returns all items at once; for short lists.
[[nodiscard]] Expected<ObjectList> List(Api& api, const std::string& path, const ListOptions& list,
                                        const CallOptions& options);

// Returns the object as the server stored it. path: of the collection.
[[nodiscard]] Expected<nlohmann::json> Create(Api& api, const std::string& path, const nlohmann::json& object,
                                              const CallOptions& options);

// Returns the object after the patch, in the form that `accept` names. patch must contain metadata.resourceVersion,
// unless last-writer-wins is intended.
[[nodiscard]] Expected<nlohmann::json> MergePatch(Api& api, const std::string& path, const nlohmann::json& patch,
                                                  const CallOptions& options, std::string_view accept = kJson);

// Deletes the object; the server deletes the object's dependents later. If the object has finalizers, the object stays
// and gets a deletionTimestamp, and Delete succeeds.
[[nodiscard]] Expected<void> Delete(Api& api, const std::string& path, const DeletePreconditions& preconditions,
                                    const CallOptions& options);

}  // namespace berth::k8sclient
