// SPDX-License-Identifier: Apache-2.0
// ContractClient: sends requests, and turns answers into text.
#include "e2e/contract/client.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <set>
#include <stdexcept>
#include <utility>

#include "k8sclient/status.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;
using k8sclient::Query;
using nlohmann::json;

constexpr std::string_view kGroup = "ipam.berth.dev/v1alpha1";
constexpr std::chrono::seconds kAnswerMax{30};

// The object's name without the case's space.
std::string NameOf(const json& object) {
  const std::string name = object.value("/metadata/name"_json_pointer, std::string());
  const std::string space = object.value("/spec/space"_json_pointer, std::string());
  return !space.empty() && name.starts_with(space + ".") ? name.substr(space.size() + 1) : name;
}

json Object(const char* kind, const std::string& name) {
  return {{"apiVersion", kGroup}, {"kind", kind}, {"metadata", {{"name", name}}}};
}

}  // namespace

std::string Said::Text() const {
  if (ok()) return std::to_string(status);
  const k8sclient::Status refusal = k8sclient::ParseStatus(body.is_null() ? "" : body.dump());
  std::string text = std::to_string(status);
  if (!refusal.reason.empty()) text += " " + refusal.reason;
  std::set<std::string> fields;
  for (const auto& cause : refusal.causes) fields.insert(cause.field.empty() ? cause.reason : cause.field);
  fields.erase("<nil>");  // the object as a whole
  for (const std::string& field : fields) text += " " + field;
  return text;
}

std::string Said::version() const { return body.value("/metadata/resourceVersion"_json_pointer, std::string()); }

bool Said::HasVersionOf(const json& object) const { return object.at("metadata").at("resourceVersion") == version(); }

bool Said::HasUidOf(const json& object) const {
  return object.at("metadata").at("uid") == body.value("/metadata/uid"_json_pointer, json());
}

std::string Said::Names() const {
  if (!ok()) return Text();
  std::string names;
  for (const json& item : body.at("items")) names += (names.empty() ? "" : " ") + NameOf(item);
  return names;
}

json ContractClient::Block(int number) const {
  const std::string first = "10.55." + std::to_string(number) + ".0";
  json block = Object("IPBlock", space_ + "." + first + "-26");
  block["spec"] = {{"space", space_},
                   {"pool", "web"},
                   {"poolUID", "u"},
                   {"cidr", first + "/26"},
                   {"node", "n" + std::to_string(number)}};
  block["used"] = 0;
  block["free"] = 0;
  block["allocations"] = json::object();
  return block;
}

json ContractClient::Pool() const {
  json pool = Object("IPPool", space_);
  pool["spec"] = {{"space", space_}, {"subnet", "10.55.0.0/16"}};
  return pool;
}

json ContractClient::Allocation(const std::string& name_space) const {
  json allocation = Object("IPAllocation", space_ + "-0123456789ab-0123456789abcdef");
  allocation["metadata"]["namespace"] = name_space;
  allocation["spec"] = {{"pod", space_},
                        {"uid", "u"},
                        {"interface", "eth0"},
                        {"node", "n1"},
                        {"addresses", {{{"address", "10.55.0.7"}, {"pool", "web"}, {"block", "10.55.0.0-26"}}}},
                        {"ips", "10.55.0.7"}};
  return allocation;
}

json ContractClient::Node() const {
  // Kubernetes' TTL controller would add this annotation a moment later.
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", {{"name", space_}, {"annotations", {{"node.alpha.kubernetes.io/ttl", "0"}}}}},
          {"status", {{"capacity", {{"cpu", "2"}}}, {"allocatable", {{"cpu", "2"}}}}}};
}

json ContractClient::Pod(int number) const {
  const json one = {{"ipam.berth.dev/ipv4", "1"}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", space_ + "-" + std::to_string(number)}, {"namespace", "default"}}},
          {"spec",
           {{"automountServiceAccountToken", false},
            {"schedulerName", "nobody"},
            {"containers", {{{"name", "a"}, {"image", "a"}, {"resources", {{"requests", one}, {"limits", one}}}}}}}}};
}

Said ContractClient::Send(const k8sclient::Request& request) {
  const auto response = api_.Call(request, k8sclient::CallOptions::Within(kAnswerMax));
  if (!response) throw std::runtime_error(request.path + ": " + response.error().message);
  json body = json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  return {.status = response->status, .body = body.is_discarded() ? json::object() : std::move(body)};
}

Said ContractClient::Create(const json& object) {
  return Send({.method = Method::kPost, .path = CollectionPath(object), .body = object.dump()});
}

json ContractClient::Created(const json& object) {
  const Said said = Create(object);
  if (!said.ok()) throw std::runtime_error("not created: " + said.body.dump());
  return said.body;
}

Said ContractClient::Patch(const std::string& path, const json& patch, std::string_view accept) {
  return Send({.method = Method::kPatch,
               .path = path,
               .body = patch.dump(),
               .content_type = k8sclient::kMergePatch,
               .accept = accept});
}

Said ContractClient::Delete(const std::string& path, const json& preconditions) {
  const json options = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"preconditions", preconditions}};
  return Send({.method = Method::kDelete, .path = path, .body = options.dump()});
}

Said ContractClient::Get(const std::string& path, Query query, std::string_view accept) {
  return Send({.path = path, .query = std::move(query), .accept = accept});
}

Said ContractClient::List(const std::string& collection, Query query, std::string_view accept) {
  query.emplace_back("fieldSelector", "spec.space=" + space_);
  return Get(collection, std::move(query), accept);
}

void ContractClient::AwaitCache(const std::string& version) {
  const Said said = List(Blocks(), NotOlderThan(version));
  if (!said.ok()) throw std::runtime_error("no list: " + said.body.dump());
}

Said ContractClient::Bind(const json& pod, const std::string& node) {
  const json binding = {{"apiVersion", "v1"},
                        {"kind", "Binding"},
                        {"metadata", {{"name", pod.at("metadata").at("name")}}},
                        {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  return Send({.method = Method::kPost, .path = PathOf(pod) + "/binding", .body = binding.dump()});
}

std::vector<json> ContractClient::Watch(const std::string& collection, Query query, std::size_t count,
                                        std::string_view accept, const std::function<void()>& meanwhile) {
  const bool is_namespaced = collection.ends_with("ipallocations");
  query.emplace_back("watch", "true");
  if (std::ranges::none_of(query, [](const auto& term) { return term.first == "fieldSelector"; })) {
    query.emplace_back("fieldSelector", (is_namespaced ? "spec.pod=" : "spec.space=") + space_);
  }
  std::vector<json> events;
  const auto ended = api_.Watch({.path = collection, .query = std::move(query), .accept = accept},
                                {.idle_max = kAnswerMax},
                                [&](std::string_view line) {
                                  events.push_back(json::parse(line));
                                  if (events.size() == 1) meanwhile();
                                  return events.size() < count;
                                });
  if (!ended) throw std::runtime_error("watch of " + collection + ": " + ended.error().message);
  if (!ended->ok()) events.push_back({{"type", "REFUSED"}, {"object", json::parse(ended->body, nullptr, false)}});
  return events;
}

Query NotOlderThan(const std::string& version) {
  return {{"resourceVersion", version}, {"resourceVersionMatch", "NotOlderThan"}};
}

std::string CollectionPath(const json& object) {
  std::string kind = object.at("kind");
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string name_space = object.value("/metadata/namespace"_json_pointer, std::string());
  const std::string group = object.at("apiVersion");
  std::string path = (group == "v1" ? "/api/" : "/apis/") + group;
  if (!name_space.empty()) path += "/namespaces/" + name_space;
  return path + "/" + kind + "s";
}

std::string PathOf(const json& object) {
  return CollectionPath(object) + "/" + object.at("metadata").at("name").get<std::string>();
}

std::string TextOf(const std::vector<json>& events) {
  std::string text;
  for (const json& event : events) {
    const json& object = event.at("object");
    const bool is_status = object.is_object() && object.value("kind", "") == "Status";
    text += (text.empty() ? "" : ", ") + event.at("type").get<std::string>();
    if (is_status) text += " " + Said{.status = object.at("code"), .body = object}.Text();
    if (!is_status && !NameOf(object).empty()) text += " " + NameOf(object);
  }
  return text;
}

bool IsOlder(const std::string& version, const std::string& than) { return std::stoull(version) < std::stoull(than); }

}  // namespace berth::e2e
