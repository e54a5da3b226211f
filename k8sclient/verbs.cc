// SPDX-License-Identifier: Apache-2.0
// The verbs: builds requests and reads answers.
#include "k8sclient/verbs.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "k8sclient/object_reader.h"
#include "k8sclient/status.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

constexpr int kPagesMax = 10'000;
constexpr int kPagesInOne = 10;  // how many pages' time the whole list has in one answer

// Sends the request. A refusal becomes an error.
Expected<Response> Accepted(Api& api, const Request& request, const CallOptions& options) {
  Expected<Response> response = api.Call(request, options);
  if (response && !response->ok()) return std::unexpected(ToError(request, *response));
  return response;
}

Expected<json> CallForObject(Api& api, const Request& request, const CallOptions& options) {
  const Expected<Response> response = Accepted(api, request, options);
  if (!response) return std::unexpected(response.error());
  // A caller may send the answer to a write back as a whole, so the answer keeps its managedFields.
  const bool is_read = request.method == Method::kGet;
  json object = is_read ? ReadObject(response->body) : json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    // The server accepted the request. If that was a write, its outcome is unknown.
    return Fail(is_read ? ErrorCode::kInternal : ErrorCode::kUnknownOutcome,
                std::string(ToString(request.method)) + " " + request.path + ": the answer is not a JSON object: \"" +
                    response->body.substr(0, 200) + "\"",
                kNoApiServer);
  }
  return object;
}

// Replaces bytes that are not UTF-8, such as in a name from the environment: otherwise dump() would throw. The server's
// rules then refuse the name.
std::string Body(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

Request WriteRequest(Method method, const std::string& path, const json& object) {
  return {.method = method,
          .path = path,
          .query = {{"fieldManager", "berth"}},
          .body = Body(object),
          .content_type = method == Method::kPatch ? kMergePatch : kJson};
}

Query ListQuery(const ListOptions& list, const std::string& continue_token) {
  Query query;
  if (!list.field_selector.empty()) query.emplace_back("fieldSelector", list.field_selector);
  if (list.page_size > 0) query.emplace_back("limit", std::to_string(list.page_size));
  if (!continue_token.empty()) {
    query.emplace_back("continue", continue_token);  // contains the version; the server refuses both together
    return query;
  }
  if (!list.resource_version.empty()) query.emplace_back("resourceVersion", list.resource_version);
  if (!list.resource_version_match.empty()) query.emplace_back("resourceVersionMatch", list.resource_version_match);
  return query;
}

// Reads one page. Returns the list's version, and the token of the next page.
Expected<ListReader::Summary> ListPage(Api& api, const Request& request, const CallOptions& options,
                                       const ListSink& sink) {
  ListReader reader(kObjectBytesMax, sink.item);
  CallOptions streamed = options;
  streamed.body = [&reader](std::string_view piece) { return reader.Feed(piece); };
  const Expected<Response> response = Accepted(api, request, streamed);
  if (!response) return std::unexpected(response.error());
  static_cast<void>(reader.Feed(response->body));  // if the Api had the whole answer at once
  auto summary = reader.End();
  if (!summary) return std::unexpected(summary.error().Within("GET " + request.path));
  return summary;
}

}  // namespace

std::string Path(std::initializer_list<std::string_view> segments) {
  std::string path;
  for (const std::string_view segment : segments) {
    // With an empty name, the path would be the collection's, and DELETE would delete all its objects.
    BERTH_CHECK(!segment.empty());
    // The server would read "." and ".." as steps in the path.
    path += segment == "." ? "/%2E" : segment == ".." ? "/%2E%2E" : "/" + PercentEncode(segment);
  }
  return path;
}

std::string ObjectPath(std::string_view collection, std::string_view name) {
  return std::string(collection) + Path({name});
}

Expected<json> Get(Api& api, const std::string& path, const CallOptions& options, std::string_view accept) {
  return CallForObject(api, {.path = path, .accept = accept}, options);
}

Expected<json> Get(Api& api, const Request& request, const CallOptions& options) {
  return CallForObject(api, request, options);
}

Expected<std::string> ListEach(Api& api, const std::string& path, const ListOptions& list, const CallOptions& options,
                               const ListSink& sink) {
  std::string continue_token;
  sink.begin();
  for (int page = 0; page < kPagesMax; ++page) {
    const Request request{.path = path, .query = ListQuery(list, continue_token), .accept = list.accept};
    CallOptions of_page = options;
    if (list.page_max) of_page.deadline = std::min(options.deadline, list.clock->Now() + *list.page_max);
    Expected<ListReader::Summary> summary = ListPage(api, request, of_page, sink);
    if (!summary && summary.error().code == ErrorCode::kGone && page > 0 && list.page_size > 0) {
      // The server has forgotten the state of the first page: read the whole list in one answer.
      ListOptions whole = list;
      whole.page_size = 0;
      if (whole.page_max) *whole.page_max *= kPagesInOne;
      return ListEach(api, path, whole, options, sink);
    }
    if (!summary) return std::unexpected(std::move(summary.error()));
    if (summary->continue_token.empty()) return std::move(summary->resource_version);
    continue_token = std::move(summary->continue_token);
  }
  return Fail(ErrorCode::kInternal, "GET " + path + ": the list does not end");
}

Expected<ObjectList> List(Api& api, const std::string& path, const ListOptions& list, const CallOptions& options) {
  ObjectList result;
  const ListSink sink{.begin = [&result] { result.items.clear(); },
                      .item = [&](json item) { result.items.push_back(std::move(item)); }};
  Expected<std::string> version = ListEach(api, path, list, options, sink);
  if (!version) return std::unexpected(std::move(version.error()));
  result.resource_version = std::move(*version);
  return result;
}

Expected<json> Create(Api& api, const std::string& path, const json& object, const CallOptions& options) {
  return CallForObject(api, WriteRequest(Method::kPost, path, object), options);
}

Expected<json> MergePatch(Api& api, const std::string& path, const json& patch, const CallOptions& options,
                          std::string_view accept) {
  Request request = WriteRequest(Method::kPatch, path, patch);
  request.accept = accept;
  return CallForObject(api, request, options);
}

Expected<void> Delete(Api& api, const std::string& path, const DeletePreconditions& preconditions,
                      const CallOptions& options) {
  json body = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", "Background"}};
  if (!preconditions.uid.empty()) body["preconditions"]["uid"] = preconditions.uid;
  if (!preconditions.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = preconditions.resource_version;
  }
  const Request request{.method = Method::kDelete, .path = path, .body = Body(body)};
  const Expected<Response> response = Accepted(api, request, options);
  if (!response) return std::unexpected(response.error());
  return {};
}

}  // namespace berth::k8sclient
