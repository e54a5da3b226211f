// SPDX-License-Identifier: Apache-2.0
// ModelApi's GET, LIST and watches.
#include <algorithm>
#include <chrono>
#include <utility>

#include "k8sclient/testing/model_api.h"
#include "k8sclient/testing/model_schema.h"

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

constexpr std::chrono::minutes kBookmarkEvery{1};
constexpr std::chrono::seconds kBookmarkBeforeEnd{2};

Refused TooLarge() {
  return {
      .status = 504, .reason = "Timeout", .message = "Too large resource version", .cause = "ResourceVersionTooLarge"};
}

// The start of a page: the list's version, and the key before the first object.
struct Page {
  std::uint64_t version = 0;
  std::string after;
};

std::optional<Page> PageOf(const std::string& token) {
  const std::size_t colon = token.find(':');
  const auto version = ToVersion(token.substr(0, colon));
  if (colon == std::string::npos || !version) return {};
  return Page{.version = *version, .after = token.substr(colon + 1)};
}

// The version of the requested list, and the start of the requested page.
std::expected<Page, Refused> PageFor(const Request& request, std::uint64_t now, std::uint64_t oldest) {
  Page page{.version = now, .after = {}};
  const std::string text = Parameter(request, "resourceVersion");
  const std::string match = Parameter(request, "resourceVersionMatch");
  const auto version = ToVersion(text.empty() ? "0" : text);
  if (!version) return std::unexpected(BadRequest("Invalid value: resourceVersion"));
  if (text.empty() && !match.empty())
    return std::unexpected(Invalid("resourceVersionMatch", "needs a resourceVersion"));
  if (const std::string token = Parameter(request, "continue"); !token.empty()) {
    const auto next = PageOf(token);
    if (!next) return std::unexpected(BadRequest("continue key is not valid"));
    page = *next;
  } else if (match == "Exact") {
    page.version = *version;
  }
  if (std::max(page.version, *version) > now) return std::unexpected(TooLarge());
  if (page.version < oldest) return std::unexpected(Expired());
  return page;
}

std::size_t LimitOf(const Request& request, std::size_t page_max) {
  // A list from the cache has no pages.
  const auto limit = ToVersion(Parameter(request, "limit"));
  return limit && *limit > 0 && Parameter(request, "resourceVersion") != "0" ? std::min<std::size_t>(*limit, page_max)
                                                                             : SIZE_MAX;
}

}  // namespace

ModelApi::ByName ModelApi::AsOf(std::uint64_t version, const std::string& collection) const {
  const auto now = collections_.find(collection);
  ByName objects = now == collections_.end() ? ByName() : now->second;
  for (auto event = events_.rbegin(); event != events_.rend() && event->version > version; ++event) {
    if (event->collection != collection) continue;
    objects.erase(KeyOf(event->object));
    if (!event->before.is_null()) objects[KeyOf(event->object)] = event->before;
  }
  return objects;
}

ModelApi::Answer ModelApi::List(const Request& request, const Target& target) const {
  const std::string selector = Parameter(request, "fieldSelector");
  if (!UnselectableField(target, selector).empty()) return std::unexpected(BadRequest("field label not supported"));
  if (!Parameter(request, "labelSelector").empty()) return std::unexpected(BadRequest("the model knows no labels"));
  const auto page = PageFor(request, version_, oldest_version_);
  if (!page) return std::unexpected(page.error());
  const bool is_cached = held_cache_ && Parameter(request, "resourceVersion") == "0";
  static const ByName kNone;
  const Collections& collections = is_cached ? *held_cache_ : collections_;
  const auto found = collections.find(target.collection);
  const ByName past = page->version < version_ ? AsOf(page->version, target.collection) : kNone;
  const ByName& objects = page->version < version_ ? past : found == collections.end() ? kNone : found->second;
  const std::size_t limit = LimitOf(request, page_max_);
  json items = json::array();
  json metadata = {{"resourceVersion", std::to_string(page->version)}};
  std::string last;
  for (auto object = objects.upper_bound(page->after); object != objects.end(); ++object) {
    if (!IsIn(target, object->second) || !IsSelected(object->second, selector)) continue;
    if (items.size() == limit) {
      metadata["continue"] = std::to_string(page->version) + ":" + last;
      break;
    }
    last = object->first;
    items.push_back(AcceptedForm(request, object->second));
  }
  const bool is_partial = request.accept == kPartialMetadataList;
  const std::string kind = ModelSchema::Of(target.collection).kind();
  const json list = {{"kind",
                      is_partial     ? "PartialObjectMetadataList"
                      : kind.empty() ? "List"
                                     : kind + "List"},
                     {"metadata", std::move(metadata)},
                     {"items", std::move(items)}};
  return Response{.status = 200, .body = list.dump()};
}

ModelApi::Answer ModelApi::Read(const Request& request, const Target& target) const {
  if (target.name.empty()) return List(request, target);
  const std::string version = Parameter(request, "resourceVersion");
  if (ToVersion(version).value_or(0) > version_) return std::unexpected(TooLarge());
  const Collections& collections = held_cache_ && version == "0" ? *held_cache_ : collections_;
  const auto objects = collections.find(target.collection);
  if (objects == collections.end()) return std::unexpected(NotFound());
  const auto object = objects->second.find(target.key());
  if (object == objects->second.end()) return std::unexpected(NotFound());
  return Response{.status = 200, .body = AcceptedForm(request, object->second).dump()};
}

json ModelApi::EventFor(const Event& event, const Request& request, const Target& target) {
  if (event.collection != target.collection || !IsIn(target, event.object)) return {};
  const std::string selector = Parameter(request, "fieldSelector");
  const bool was_selected = !event.before.is_null() && IsSelected(event.before, selector);
  const bool is_selected = !event.is_gone && IsSelected(event.object, selector);
  if (!was_selected && !is_selected) return {};
  const char* const type = !was_selected ? "ADDED" : is_selected ? "MODIFIED" : "DELETED";
  return {{"type", type}, {"object", AcceptedForm(request, event.object)}};
}

std::vector<json> ModelApi::InitialEvents(const Request& request, const Target& target, std::uint64_t& seen) const {
  std::vector<json> first;
  if (std::exchange(seen, seen > 0 ? seen : version_) > 0) return first;
  const auto now = collections_.find(target.collection);
  if (now == collections_.end()) return first;
  for (const auto& [key, object] : now->second) {
    const Event event{
        .version = version_, .collection = target.collection, .before = {}, .object = object, .is_gone = false};
    if (json told = EventFor(event, request, target); !told.is_null()) first.push_back(std::move(told));
  }
  return first;
}

Expected<Response> ModelApi::Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) {
  using std::chrono::steady_clock;
  const Target target = ParseTarget(request.path);
  const std::string from = Parameter(request, "resourceVersion");
  const auto version = ToVersion(from.empty() ? "0" : from);
  if (!version) return ToResponse({.status = 500, .reason = "", .message = "resourceVersion: Invalid value"}, target);
  std::uint64_t seen = *version;
  const auto seconds = ToVersion(Parameter(request, "timeoutSeconds"));
  const auto end = seconds ? steady_clock::now() + std::chrono::seconds(*seconds) : steady_clock::time_point::max();
  const bool is_marked = Parameter(request, "allowWatchBookmarks") == "true";
  auto mark = is_marked ? std::min(steady_clock::now() + kBookmarkEvery, end - kBookmarkBeforeEnd) : end;
  const std::stop_callback wake(options.stop, [this] {
    const std::scoped_lock lock(mutex_);
    happened_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const std::uint64_t restores = restores_;
  if (seen > 0 && seen < oldest_version_) {
    lock.unlock();
    const Response refused = ToResponse(Expired(), target);
    sink(R"({"type":"ERROR","object":)" + refused.body + "}");
    return Response{.status = 200};
  }
  std::vector<json> news = InitialEvents(request, target, seen);
  std::uint64_t marked = seen;
  while (true) {
    for (auto event = std::ranges::upper_bound(events_, seen, {}, &Event::version); event != events_.end(); ++event) {
      if (json told = EventFor(*event, request, target); !told.is_null()) news.push_back(std::move(told));
      seen = event->version;
    }
    const auto now = steady_clock::now();
    if (now >= mark && seen > marked) {
      marked = seen;
      news.push_back({{"type", "BOOKMARK"}, {"object", {{"metadata", {{"resourceVersion", std::to_string(seen)}}}}}});
    }
    if (now >= mark)
      mark = std::max(std::min(now + kBookmarkEvery, end - kBookmarkBeforeEnd), now + kBookmarkBeforeEnd);
    lock.unlock();
    for (const json& event : std::exchange(news, {})) {
      if (!sink(event.dump())) return Response{.status = 200};
    }
    lock.lock();
    if (now >= end) return Response{.status = 200};
    const auto has_news = [&] {
      return options.stop.stop_requested() || restores_ > restores ||
             (!events_.empty() && events_.back().version > seen);
    };
    const auto until = std::min(mark, end);
    if (until == steady_clock::time_point::max()) {
      happened_.wait(lock, has_news);
    } else {
      happened_.wait_until(lock, until, has_news);
    }
    if (options.stop.stop_requested()) return Fail(ErrorCode::kTimeout, "stopped");
    if (restores_ > restores) return Response{.status = 200};
  }
}

}  // namespace berth::k8sclient::testing
