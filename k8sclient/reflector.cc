// SPDX-License-Identifier: Apache-2.0
// Reflector decides when to list, when to watch, and when to wait.
#include "k8sclient/reflector.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "k8sclient/status.h"
#include "k8sclient/text_at.h"
#include "k8sclient/verbs.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{800};
constexpr milliseconds kLongestWait{30'000};
constexpr int kDoublingsMax = 6;
constexpr std::chrono::seconds kWatchAtLeast{300};  // to 600 s, at random, so that watches do not end together
constexpr std::chrono::seconds kAnswerMax{60};      // one page of a list
constexpr std::chrono::seconds kSuspiciouslyShort{1};
constexpr milliseconds kAtOnce{1};  // if an event came within this time, the Reflector did not have to wait for it
constexpr int kExactFailuresMax = 3;

}  // namespace

Reflector::Reflector(Api& api, ReflectorHandler& handler, Clock& clock, ReflectorOptions options)
    : api_(api),
      handler_(handler),
      clock_(clock),
      options_(std::move(options)),
      events_(options_.fields),
      next_list_(!options_.since.empty() ? NextList::kExact
                 : options_.in_pages     ? NextList::kConsistent
                                         : NextList::kAny),
      resource_version_(options_.since) {}

void Reflector::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Expected<void> done = next_list_ == NextList::kNone           ? Watch(stop)
                                : next_list_ == NextList::kCheckVersion ? CheckVersion(stop)
                                                                        : List(stop);
    if (stop.stop_requested()) return;
    if (done) continue;
    // If `since` is not a number, or is a version of another cluster that this server has not reached, the server may
    // refuse the list with other errors than kGone.
    const bool is_no_version = next_list_ == NextList::kExact &&
                               (done.error().code != ErrorCode::kUnavailable || failures_ >= kExactFailuresMax);
    const bool is_forgotten = done.error().code == ErrorCode::kGone || is_no_version;
    if (is_forgotten && next_list_ != NextList::kConsistent) {
      // If the watch failed, list not older than the version seen last. If a list failed, the server cannot serve this
      // version, so send a consistent list.
      const bool is_watch = next_list_ == NextList::kNone;
      next_list_ = is_watch ? NextList::kNotOlder : NextList::kConsistent;
      // Without a wait, a server that refuses each watch would get whole lists without a pause.
      if (is_watch && std::exchange(was_watch_forgotten_, true)) {
        WaitAfter(done.error(), stop);
      } else {
        handler_.Failed(done.error(), milliseconds(0));
      }
      continue;
    }
    if (next_list_ == NextList::kNone) next_list_ = NextList::kCheckVersion;
    WaitAfter(done.error(), stop);
  }
}

void Reflector::WaitAfter(const Error& error, const std::stop_token& stop) {
  const milliseconds base = std::min(kLongestWait, kFirstWait * (1 << std::min(failures_, kDoublingsMax)));
  ++failures_;
  const auto jittered = std::chrono::duration_cast<milliseconds>(base * (1 + clock_.Random()));
  const milliseconds wait = std::max(jittered, error.retry_after);
  handler_.Failed(error, wait);
  clock_.Sleep(wait, stop);
}

void Reflector::ForgetFailures() {
  failures_ = 0;
  was_watch_forgotten_ = false;
}

Expected<void> Reflector::List(const std::stop_token& stop) {
  ListOptions list{.field_selector = options_.field_selector,
                   .accept = options_.metadata_only ? kPartialMetadataList : kJson,
                   .page_max = kAnswerMax,
                   .clock = &clock_};
  if (next_list_ == NextList::kAny) {
    list.resource_version = "0";
    list.page_size = 0;  // the server's cache has no pages for version 0
  } else if (next_list_ != NextList::kConsistent) {
    list.resource_version = resource_version_;
    list.resource_version_match = next_list_ == NextList::kExact ? "Exact" : "NotOlderThan";
  }
  Expected<std::string> version = ListEach(
      api_,
      options_.path,
      list,
      {.stop = stop},
      {.begin = [this] { handler_.BeginList(); }, .item = [this](json object) { handler_.Listed(std::move(object)); }});
  if (!version) return std::unexpected(std::move(version.error()));
  if (version->empty()) {
    return Fail(ErrorCode::kInternal, "GET " + options_.path + ": the list has no resourceVersion");
  }
  resource_version_ = *std::move(version);
  next_list_ = NextList::kNone;
  handler_.EndList(resource_version_);
  return {};
}

Expected<void> Reflector::CheckVersion(const std::stop_token& stop) {
  Request request{
      .path = options_.path,
      .query = {{"limit", "1"}, {"resourceVersion", resource_version_}, {"resourceVersionMatch", "NotOlderThan"}},
      .accept = kPartialMetadataList};
  // The node authorizer refuses a node's list of Nodes without the selector.
  if (!options_.field_selector.empty()) request.query.emplace_back("fieldSelector", options_.field_selector);
  const Expected<Response> answer =
      api_.Call(request, {.deadline = clock_.Now() + kAnswerMax, .stop = stop, .body = {}});
  if (!answer) return std::unexpected(answer.error());
  if (!answer->ok()) return std::unexpected(ToError(request, *answer));
  next_list_ = NextList::kNone;
  return {};
}

Expected<void> Reflector::Watch(const std::stop_token& stop) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(kWatchAtLeast * (1 + clock_.Random()));
  Request request{.path = options_.path,
                  .query = {{"watch", "true"},
                            {"allowWatchBookmarks", "true"},
                            {"resourceVersion", resource_version_},
                            {"timeoutSeconds", std::to_string(seconds.count())}},
                  .accept = options_.metadata_only ? kPartialMetadata : kJson};
  if (!options_.field_selector.empty()) request.query.emplace_back("fieldSelector", options_.field_selector);
  const auto began = clock_.Now();
  auto read_at = began;  // when the last event was handled
  bool heard = false;
  Expected<void> failure;
  const Expected<Response> ended = api_.Watch(request, {.stop = stop}, [&](std::string_view line) {
    const bool was_awaited = clock_.Now() - read_at > kAtOnce;
    const bool go_on = TakeEvent(line, failure);
    heard = heard || go_on;
    if (go_on && was_awaited && options_.pause > milliseconds(0)) clock_.Sleep(options_.pause, stop);
    read_at = clock_.Now();
    return go_on;
  });
  if (heard) ForgetFailures();
  if (!failure) return failure;
  if (!ended) return std::unexpected(ended.error());
  if (!ended->ok()) return std::unexpected(ToError(request, *ended));
  if (!heard && clock_.Now() - began < kSuspiciouslyShort) {
    // Without this error, the Reflector would send watch after watch to a server or proxy that ends each at once.
    return Fail(ErrorCode::kUnavailable, "GET " + options_.path + ": the watch ended at once");
  }
  ForgetFailures();
  if (clock_.Now() - began < seconds) next_list_ = NextList::kCheckVersion;
  return {};
}

bool Reflector::TakeEvent(std::string_view line, Expected<void>& failure) {
  json event = events_.Read(line);
  const std::string type = TextAt(event, "type");
  if (type.empty() || !ValueAt(event, "object").is_object()) {
    failure = Fail(ErrorCode::kInternal,
                   "GET " + options_.path + ": not a watch event: \"" + std::string(line.substr(0, 200)) + "\"");
    return false;
  }
  json& object = event["object"];
  if (type == "ERROR") {
    const json& code = ValueAt(object, "code");
    const int status = code.is_number_integer() ? code.get<int>() : 500;
    failure = std::unexpected(ToError({.path = options_.path}, {.status = status, .body = object.dump()}));
    return false;
  }
  std::string version = TextAt(ValueAt(object, "metadata"), "resourceVersion");
  if (type == "ADDED" || type == "MODIFIED") {
    handler_.Upsert(std::move(object));
  } else if (type == "DELETED") {
    handler_.Delete(std::move(object));
  } else if (type != "BOOKMARK") {
    failure =
        Fail(ErrorCode::kInternal, "GET " + options_.path + ": unknown watch event \"" + type.substr(0, 200) + "\"");
    return false;
  }
  if (version.empty()) return true;
  resource_version_ = std::move(version);
  handler_.Reached(resource_version_);
  return true;
}

}  // namespace berth::k8sclient
