// SPDX-License-Identifier: Apache-2.0
// TestCluster: sends requests as the administrator.
#include "e2e/test_cluster.h"

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <unistd.h>
#include <utility>

#include "ipam/prefix.h"
#include "k8sclient/client_config.h"
#include "k8sclient/kubeconfig.h"
#include "k8sclient/openssl.h"
#include "k8sclient/verbs.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

constexpr std::string_view kGroup = "ipam.berth.dev";
constexpr std::string_view kVersion = "v1alpha1";
constexpr std::chrono::seconds kCallMax{20};

template <typename T>
T Must(Expected<T> value, const std::string& what) {
  if (!value) throw std::runtime_error(what + ": " + value.error().message + " " + value.error().details);
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

k8sclient::CallOptions Soon() { return k8sclient::CallOptions::Within(kCallMax); }

std::string Collection(std::string_view plural) { return k8sclient::Path({"apis", kGroup, kVersion, plural}); }

std::string PathOf(std::string_view plural, std::string_view name) {
  return k8sclient::Path({"apis", kGroup, kVersion, plural, name});
}

std::string PoolStatusPath(std::string_view name) {
  return k8sclient::Path({"apis", kGroup, kVersion, "ippools", name, "status"});
}

k8sclient::ClientConfig Load(const std::string& path) {
  return Must(k8sclient::LoadKubeconfig({path}, "", k8sclient::ReadWholeFile), "kubeconfig " + path);
}

// The text of `material`, or of its file; empty if there is neither.
std::string TextOf(const k8sclient::Material& material) {
  return material.path.empty() || !material.text.empty() ? material.text
                                                         : Must(k8sclient::ReadWholeFile(material.path), "credentials");
}

json ReadyCondition(bool ready, const std::string& reason, const std::string& message) {
  return {{"type", "Ready"},
          {"status", ready ? "True" : "False"},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
}

// The prefix length of the pool's blocks.
int EffectiveBlockLength(const json& spec) {
  const auto subnet = Must(ipam::Prefix::Parse(spec.at("subnet").get<std::string>()), "subnet");
  const int standard = subnet.family() == ipam::Family::kIPv4 ? 26 : 122;
  return std::max(spec.value("blockSize", standard), subnet.length());
}

}  // namespace

Upstream UpstreamOf(const std::string& kubeconfig_path) {
  const k8sclient::ClientConfig config = Load(kubeconfig_path);
  const std::string address = config.server.substr(config.server.find("://") + 3);
  const std::size_t colon = address.rfind(':');
  return {.host = address.substr(0, colon),
          .port = static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))),
          .certificate_authority = TextOf(config.certificate_authority),
          .client_certificate = TextOf(config.client_certificate),
          .client_key = TextOf(config.client_key),
          .token = TextOf(config.token)};
}

TestCluster::TestCluster(const std::string& admin_kubeconfig_path)
    : config_(Load(admin_kubeconfig_path)), api_(Must(k8sclient::MakeHttpApi(config_), "client")) {}

TestCluster::~TestCluster() {
  // An error does not matter: the cluster may be gone already.
  if (!marker_.empty()) static_cast<void>(k8sclient::Delete(*api_, PathOf("ipblocks", marker_), {}, Soon()));
}

std::string TestCluster::LatestVersion() {
  constexpr int kOffsets = 256;
  const auto version = [](const json& block) { return block.at("metadata").at("resourceVersion").get<std::string>(); };
  if (!marker_.empty()) {
    const auto patched =
        k8sclient::MergePatch(*api_, PathOf("ipblocks", marker_), {{"next", ++marks_ % kOffsets}}, Soon());
    if (patched) return version(*patched);
    // A controller may have deleted the marker block, because the block is empty.
    if (patched.error().code != ErrorCode::kNotFound) Must(patched, "patch " + marker_);
  }
  const std::string space = "marker-" + std::to_string(::getpid());
  marker_ = space + ".192.0.2.0-32";
  const json block = {
      {"apiVersion", std::string(kGroup) + "/" + std::string(kVersion)},
      {"kind", "IPBlock"},
      {"metadata", {{"name", marker_}}},
      {"spec", {{"space", space}, {"pool", "none"}, {"poolUID", "none"}, {"cidr", "192.0.2.0/32"}, {"node", "none"}}},
      {"used", 0},
      {"free", 0},
      {"allocations", json::object()}};
  return version(Must(k8sclient::Create(*api_, Collection("ipblocks"), block, Soon()), "create " + marker_));
}

Expected<void> TestCluster::TryCreatePool(const std::string& name, const json& spec) {
  const json pool = {{"apiVersion", std::string(kGroup) + "/" + std::string(kVersion)},
                     {"kind", "IPPool"},
                     {"metadata", {{"name", name}}},
                     {"spec", spec}};
  const auto created = k8sclient::Create(*api_, Collection("ippools"), pool, Soon());
  if (!created) return std::unexpected(created.error());
  return {};
}

void TestCluster::CreateReadyPool(const std::string& name, const json& spec) {
  Must(TryCreatePool(name, spec), "create pool " + name);
  const json status = {{"conditions", {ReadyCondition(true, "Accepted", "")}},
                       {"blockSize", EffectiveBlockLength(spec)},
                       {"claimable", {spec.at("subnet")}},
                       {"blocks", 0}};
  Patch(PoolStatusPath(name), {{"status", status}});
}

void TestCluster::SetReady(const std::string& name, bool ready, const std::string& reason, const std::string& message) {
  Patch(PoolStatusPath(name), {{"status", {{"conditions", {ReadyCondition(ready, reason, message)}}}}});
}

void TestCluster::Withhold(const std::string& name, const std::vector<std::string>& addresses) {
  Patch(PoolStatusPath(name), {{"status", {{"withheld", addresses}}}});
}

void TestCluster::Reserve(const std::string& pool, const std::string& address, const std::string& reservation) {
  const auto wanted = Must(ipam::Address::Parse(address), "address");
  for (const json& block : Blocks(pool)) {
    const auto cidr = Must(ipam::Prefix::Parse(block.at("spec").at("cidr").get<std::string>()), "cidr");
    if (!cidr.Contains(wanted)) continue;
    const json entry = {{ipam::ToString(cidr.OffsetOf(wanted)), "! " + reservation}};
    Patch(PathOf("ipblocks", block.at("metadata").at("name").get<std::string>()),
          {{"allocations", entry}, {"used", block.at("used").get<int>() + 1}});
  }
}

void TestCluster::PatchPool(const std::string& name, const json& patch) { Patch(PathOf("ippools", name), patch); }

void TestCluster::DeletePool(const std::string& name) { Remove(PathOf("ippools", name)); }

std::vector<json> TestCluster::Blocks(const std::string& pool) {
  const k8sclient::ListOptions options{.field_selector = "spec.pool=" + pool,
                                       .resource_version = LatestVersion(),
                                       .resource_version_match = "NotOlderThan",
                                       .page_size = 0};
  return Must(k8sclient::List(*api_, Collection("ipblocks"), options, Soon()), "list blocks").items;
}

std::map<std::string, std::string> TestCluster::Entries(const std::string& pool) {
  std::map<std::string, std::string> entries;
  for (const json& block : Blocks(pool)) {
    const auto cidr = Must(ipam::Prefix::Parse(block.at("spec").at("cidr").get<std::string>()), "cidr");
    for (const auto& [offset, entry] : block.at("allocations").items()) {
      entries[cidr.At(std::stoull(offset)).ToString()] = entry.get<std::string>();
    }
  }
  return entries;
}

void TestCluster::RemoveBlocks(const std::string& pool) {
  for (const json& block : Blocks(pool)) {
    const std::string path = PathOf("ipblocks", block.at("metadata").at("name").get<std::string>());
    if (block.at("metadata").contains("finalizers")) Patch(path, {{"metadata", {{"finalizers", nullptr}}}});
    Remove(path);
  }
}

void TestCluster::CreateNamespace(const std::string& name, const json& labels) {
  const json object = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}, {"labels", labels}}}};
  Must(k8sclient::Create(*api_, k8sclient::Path({"api", "v1", "namespaces"}), object, Soon()), "create namespace");
}

void TestCluster::DeleteNamespace(const std::string& name) {
  Remove(k8sclient::Path({"api", "v1", "namespaces", name}));
}

void TestCluster::LabelNode(const std::string& name, const json& labels) {
  const json object = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}, {"labels", labels}}}};
  const auto created = k8sclient::Create(*api_, k8sclient::Path({"api", "v1", "nodes"}), object, Soon());
  if (created) return;
  if (created.error().code != ErrorCode::kAlreadyExists) Must(created, "create node " + name);
  Patch(k8sclient::Path({"api", "v1", "nodes", name}), {{"metadata", {{"labels", labels}}}});
}

std::string TestCluster::Token(const Account& account, const json& bound_to) {
  json request = {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenRequest"}, {"spec", json::object()}};
  if (!bound_to.is_null()) request["spec"]["boundObjectRef"] = bound_to;
  const std::string path =
      k8sclient::Path({"api", "v1", "namespaces", account.name_space, "serviceaccounts", account.name, "token"});
  return Must(k8sclient::Create(*api_, path, request, Soon()), "token of " + account.name)
      .at("status")
      .at("token")
      .get<std::string>();
}

std::string TestCluster::AgentToken(const std::string& node) {
  LabelNode(node, json::object());
  return Token({}, {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}});
}

void TestCluster::WriteAgentKubeconfig(const std::string& node, const std::string& path) {
  std::ofstream(path) << "apiVersion: v1\nkind: Config\ncurrent-context: agent\nclusters:\n- name: agent\n  cluster:\n"
                      << "    server: " << config_.server << "\n    certificate-authority-data: "
                      << k8sclient::EncodeBase64(TextOf(config_.certificate_authority))
                      << "\nusers: [{name: agent, user: {token: " << AgentToken(node) << "}}]\n"
                      << "contexts: [{name: agent, context: {cluster: agent, user: agent}}]\n";
}

void TestCluster::Patch(const std::string& path, const json& patch) {
  Must(k8sclient::MergePatch(*api_, path, patch, Soon()), "patch " + path);
}

// Deletes the object. A missing object is no error.
void TestCluster::Remove(const std::string& path) {
  const auto removed = k8sclient::Delete(*api_, path, {}, Soon());
  if (!removed && removed.error().code != ErrorCode::kNotFound) Must(removed, "delete " + path);
}

}  // namespace berth::e2e
