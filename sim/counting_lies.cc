// SPDX-License-Identifier: Apache-2.0
// Lies of plants about objects from which the controller calculates address counts.
#include "sim/counting_lies.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "reconciler/read_holders.h"
#include "sim/scheduler.h"

namespace berth::sim {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

namespace {

bool HideCooling(json& object) {
  if (!object.is_object() || !object.contains("allocations")) return false;
  std::vector<std::string> offsets;
  for (const auto& [offset, text] : object["allocations"].items()) {
    if (text.get_ref<const std::string&>().starts_with('~')) offsets.push_back(offset);
  }
  for (const std::string& offset : offsets) object["allocations"].erase(offset);
  object["used"] = object["allocations"].size();
  return !offsets.empty();
}

bool HasParameter(const Request& request, std::string_view key) {
  return std::ranges::any_of(request.query, [&](const auto& item) { return item.first == key; });
}

}  // namespace

void AnswersNoCooling(const Request& /*request*/, Network::Answer& answer) {
  if (!answer || answer->body.find("\"~") == std::string::npos) return;
  json body = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  HideCooling(body);
  if (body.contains("items")) {
    for (json& item : body["items"]) HideCooling(item);
  }
  answer->body = body.dump();
}
bool TellsNoCooling(std::string& line) {
  if (line.find("\"~") == std::string::npos) return true;
  json event = json::parse(line);
  HideCooling(event["object"]);
  line = event.dump();
  return true;
}

Network::Lies ListsPodsFromCache() {
  struct Seen {
    Nanos when;
    std::string version;
  };
  const auto versions = std::make_shared<std::deque<Seen>>();
  const auto rewrite = [versions](Request& request) {
    constexpr Nanos kLag = std::chrono::seconds(10);
    if (request.method != Method::kGet || request.path != reconciler::kPodsPath) return;
    if (!HasParameter(request, "fieldSelector") || HasParameter(request, "resourceVersion")) return;
    while (versions->size() > 1 && (*versions)[1].when + kLag <= Now()) versions->pop_front();
    if (versions->empty()) return;
    request.query.emplace_back("resourceVersion", versions->front().version);
    request.query.emplace_back("resourceVersionMatch", "Exact");
  };
  const auto note = [versions](const Request& request, Network::Answer& answer) {
    if (request.method == Method::kGet || !answer || !answer->ok()) return;
    const json body = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
    const json version = body.value("/metadata/resourceVersion"_json_pointer, json());
    if (!version.is_string()) return;
    // Answers may arrive in another order than the API server sent them.
    if (!versions->empty() && std::stoull(versions->back().version) >= std::stoull(version.get<std::string>())) return;
    versions->push_back({.when = Now(), .version = version});
  };
  return {.rewrites = rewrite, .changes = note};
}

void DropsNulls(Request& request) {
  if (request.method != Method::kPatch) return;
  json body = json::parse(request.body);
  for (const char* const part : {"capacity", "allocatable"}) {
    json& numbers = body["status"][part];
    for (auto number = numbers.begin(); number != numbers.end();) {
      number = number->is_null() ? numbers.erase(number) : std::next(number);
    }
  }
  request.body = body.dump();
}

void DeletesBlindlyOnceUsed(Request& request) {
  constexpr std::chrono::seconds kLongest{60};
  constexpr std::chrono::milliseconds kLook{100};
  static std::set<std::string> used;  // paths of blocks in which an entry was written
  json body = request.body.empty() ? json() : json::parse(request.body);
  if (request.method == Method::kPatch) {
    const json entries = body.value("allocations", json::object());
    if (std::ranges::any_of(entries, [](const json& entry) { return entry.is_string(); })) used.insert(request.path);
  }
  if (request.method != Method::kDelete) return;
  used.erase(request.path);
  for (auto waited = kLook; waited < kLongest && !used.contains(request.path); waited += kLook) {
    std::this_thread::sleep_for(kLook);
  }
  if (body.contains("preconditions")) body["preconditions"].erase("resourceVersion");
  request.body = body.dump();
}

}  // namespace berth::sim
