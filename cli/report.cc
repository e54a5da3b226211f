// SPDX-License-Identifier: Apache-2.0
// Reads the report that ReportOf makes.
#include "cli/report.h"

#include <nlohmann/json.hpp>

#include "k8sclient/text_at.h"

namespace berth::cli {

namespace {

using k8sclient::TextAt;
using nlohmann::json;

std::unexpected<Error> NoReport(const std::string& why) {
  return Fail(ErrorCode::kDecode, "the report " + why, "make one: berthctl check -o json");
}

}  // namespace

Expected<std::vector<Release>> ReadReport(const std::string& text) {
  const json report = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto findings = report.is_object() ? report.find("findings") : report.end();
  if (!report.is_object() || findings == report.end() || !findings->is_array()) return NoReport("has no findings");
  std::vector<Release> releases;
  for (const json& finding : *findings) {
    if (!finding.is_object()) return NoReport("has a finding that is no object");
    if (TextAt(finding, "kind") != "pod-gone") continue;
    const auto address = ipam::Address::Parse(TextAt(finding, "address"));
    if (!address) return NoReport("has no address in a finding: " + address.error().message);
    releases.push_back({.address = *address, .space = TextAt(finding, "space")});
  }
  return releases;
}

}  // namespace berth::cli
