// SPDX-License-Identifier: Apache-2.0
// Writes the EndpointSlice only if it differs from what is wanted, and changes or creates the CSIStorageCapacity.
#include "extender/endpoints.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "k8sclient/verbs.h"

namespace berth::extender {

namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kRetryPause{1000};
constexpr std::chrono::milliseconds kCallMax{5000};

// The address family of a slice cannot change, so each family has a slice of its own.
std::string SliceName(const std::string& family) {
  return std::string(kServiceName) + (family == "IPv6" ? "-6" : "-4");
}

json LabelsOfSlice() {
  return {{"kubernetes.io/service-name", kServiceName},
          {"endpointslice.kubernetes.io/managed-by", "berth-controller"},
          {"app.kubernetes.io/name", "berth"}};
}

bool Has(const json& object, const json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    const auto found = object.find(key);
    if (found == object.end() || *found != value) return false;
  }
  return true;
}

}  // namespace

Expected<void> WriteEndpoint(k8sclient::Api& api, const Endpoint& endpoint, const k8sclient::CallOptions& options) {
  const std::string family = endpoint.address.find(':') == std::string::npos ? "IPv4" : "IPv6";
  const std::string name = SliceName(family);
  const std::string path =
      k8sclient::Path({"apis", "discovery.k8s.io", "v1", "namespaces", endpoint.name_space, "endpointslices"});
  const json endpoints =
      json::array({{{"addresses", json::array({endpoint.address})}, {"conditions", {{"ready", true}}}}});
  const json ports = json::array({{{"name", "https"}, {"protocol", "TCP"}, {"port", endpoint.port}}});
  const auto found = k8sclient::Get(api, path + "/" + name, options);
  if (!found && found.error().code != ErrorCode::kNotFound) return std::unexpected(found.error());
  if (!found) {
    const json slice = {{"apiVersion", "discovery.k8s.io/v1"},
                        {"kind", "EndpointSlice"},
                        {"metadata", {{"name", name}, {"labels", LabelsOfSlice()}}},
                        {"addressType", family},
                        {"endpoints", endpoints},
                        {"ports", ports}};
    const auto created = k8sclient::Create(api, path, slice, options);
    return created ? Expected<void>() : std::unexpected(created.error());
  }
  const json metadata = found->value("metadata", json::object());
  const bool is_same = Has(metadata.value("labels", json::object()), LabelsOfSlice()) &&
                       Has(*found, {{"endpoints", endpoints}, {"ports", ports}});
  if (is_same) return {};
  const json patch = {
      {"metadata", {{"resourceVersion", metadata.value("resourceVersion", "")}, {"labels", LabelsOfSlice()}}},
      {"endpoints", endpoints},
      {"ports", ports}};
  const auto patched = k8sclient::MergePatch(api, path + "/" + name, patch, options);
  return patched ? Expected<void>() : std::unexpected(patched.error());
}

Expected<void> WakeScheduler(k8sclient::Api& api, const std::string& name_space, std::int64_t stamp,
                             const k8sclient::CallOptions& options) {
  const std::string path =
      k8sclient::Path({"apis", "storage.k8s.io", "v1", "namespaces", name_space, "csistoragecapacities"});
  const json change = {{"capacity", std::to_string(stamp)}};
  const auto patched = k8sclient::MergePatch(api, path + "/" + kServiceName, change, options);
  if (patched) return {};
  if (patched.error().code != ErrorCode::kNotFound) return std::unexpected(patched.error());
  const json made = {{"apiVersion", "storage.k8s.io/v1"},
                     {"kind", "CSIStorageCapacity"},
                     {"metadata", {{"name", kServiceName}, {"labels", {{"app.kubernetes.io/name", "berth"}}}}},
                     {"storageClassName", kServiceName},
                     {"capacity", std::to_string(stamp)}};
  const auto created = k8sclient::Create(api, path, made, options);
  return created ? Expected<void>() : std::unexpected(created.error());
}

void KeepEndpoint(k8sclient::Api& api, k8sclient::Clock& clock, const Endpoint& endpoint, const std::stop_token& stop) {
  bool was_written = false;
  while (!stop.stop_requested()) {
    const auto written = WriteEndpoint(api, endpoint, k8sclient::CallOptions::Within(kCallMax, stop));
    if (!written && !stop.stop_requested()) {
      spdlog::warn("cannot write the extender's EndpointSlice err={}", Quoted(written.error().message));
    } else if (written && !was_written) {
      was_written = true;
      spdlog::info(
          "the extender's EndpointSlice names this controller address={} port={}", endpoint.address, endpoint.port);
    }
    if (!clock.Sleep(written ? kEndpointPeriod : kRetryPause, stop)) return;
  }
}

}  // namespace berth::extender
