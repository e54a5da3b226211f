// SPDX-License-Identifier: Apache-2.0
// The list of versions, and the texts made from it.
#include "cni/version.h"

#include <nlohmann/json.hpp>

namespace berth::cni {
namespace {

constexpr std::array<std::string_view, kVersions.size()> kNames = {
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
static_assert(kVersions.back() == kNewestVersion);

}  // namespace

std::string_view ToString(Version version) { return kNames[static_cast<std::size_t>(version)]; }

std::optional<Version> FindVersion(std::string_view text) {
  for (const Version version : kVersions) {
    if (ToString(version) == text) return version;
  }
  return std::nullopt;
}

std::string SupportedVersions() {
  std::string text;
  for (const std::string_view name : kNames) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string VersionAnswer() {
  const nlohmann::ordered_json answer = {{"cniVersion", ToString(kNewestVersion)}, {"supportedVersions", kNames}};
  return answer.dump();
}

std::string AboutText(std::string_view program) {
  const std::string name(program);
  return name + ": gives a pod an address that no other pod of the cluster has. A CNI plugin such as bridge executes " +
         name + " as its IPAM plugin. " + name +
         " reads the call from the CNI_* variables, and the network configuration from stdin.\n"
         "CNI protocol versions supported: " +
         SupportedVersions() + "\n\nExamples:\n  CNI_COMMAND=VERSION " + name +
         "\n  echo '{\"cniVersion\": \"1.1.0\", \"name\": \"pods\", \"ipam\": {\"type\": \"berth\", \"pools\": "
         "[\"pods-v4\"]}}' | CNI_COMMAND=STATUS CNI_PATH=/opt/cni/bin " +
         name + "\n";
}

}  // namespace berth::cni
