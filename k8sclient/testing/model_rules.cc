// SPDX-License-Identifier: Apache-2.0
// The CRDs' CEL rules, found by the beginning of their text. The tables of e2e/crds/objects test that code and rule
// mean the same.
#include "k8sclient/testing/model_rules.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ipam/address.h"
#include "ipam/prefix.h"

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

constexpr std::size_t kSelectorTermsMax = 32;
constexpr std::size_t kLabelKeyMax = 317;
constexpr std::size_t kNameMax = 63;
constexpr std::size_t kSpaceNameMax = 19;

std::string NameOf(const json& self) { return self.at("metadata").value("name", ""); }

std::size_t SizeAt(const json& self, const char* key) {
  const auto found = self.find(key);
  return found == self.end() ? 0 : found->size();
}

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.emplace_back(text);
  return parts;
}

std::optional<ipam::Prefix> CidrOf(const std::string& text) {
  auto prefix = ipam::Prefix::Parse(text);
  return prefix ? std::optional(*prefix) : std::nullopt;
}
std::optional<ipam::Prefix> CidrAt(const json& self, const char* key) { return CidrOf(self.value(key, "")); }

std::optional<ipam::Address> AddressOf(const std::string& text) {
  auto address = ipam::Address::Parse(text);
  return address ? std::optional(*address) : std::nullopt;
}

bool IsCidr(const std::string& text) {
  const auto cidr = CidrOf(text);
  return cidr && cidr->ToString() == text;
}
bool IsAddress(const std::string& text) {
  const auto address = AddressOf(text);
  return address && address->ToString() == text;
}

bool IsRange(const std::string& text) {
  if (IsCidr(text)) return true;
  const auto ends = SplitAt(text, '-');
  const bool is_mixed = text.find('.') != std::string::npos && text.find(':') != std::string::npos;
  return ends.size() <= 2 && !is_mixed && std::ranges::all_of(ends, IsAddress);
}

bool LieInside(const ipam::Prefix& subnet, const json& ranges) {
  return std::ranges::all_of(ranges, [&](const json& range) {
    const std::string text = range;
    if (const auto cidr = CidrOf(text)) return subnet.Contains(*cidr);
    return std::ranges::all_of(SplitAt(text, '-'), [&](const std::string& end) {
      const auto address = AddressOf(end);
      return !address || subnet.Contains(*address);
    });
  });
}
bool LieInsideSubnet(const json& self, const char* key) {
  const auto subnet = CidrAt(self, "subnet");
  return !self.contains(key) || !subnet || LieInside(*subnet, self[key]);
}

bool IsFour(const ipam::Prefix& prefix) { return prefix.family() == ipam::Family::kIPv4; }

bool BlockSizeFits(const json& self, const json& /*old*/) {
  const auto subnet = CidrAt(self, "subnet");
  if (!self.contains("blockSize") || !subnet) return true;
  const int size = self["blockSize"];
  return IsFour(*subnet) ? size <= 32 : size >= 120;
}

bool PrefixLengthFits(const json& self, const json& /*old*/) {
  const auto subnet = CidrAt(self, "subnet");
  return !self.contains("prefixLength") || !subnet || !IsFour(*subnet) || self["prefixLength"] <= 32;
}

bool GatewayIsReached(const json& self, const json& /*old*/) {
  const auto subnet = CidrAt(self, "subnet");
  const auto gateway = AddressOf(self.value("gateway", ""));
  if (!gateway || !subnet) return true;
  if (self.value("prefixLength", subnet->length()) < subnet->length()) return gateway->family() == subnet->family();
  return subnet->Contains(*gateway);
}

bool NextHopFits(const json& self, const json& /*old*/) {
  const auto destination = CidrAt(self, "dst");
  const auto hop = AddressOf(self.value("gw", ""));
  return !destination || !hop || destination->family() == hop->family();
}

bool NameFollows(const json& self, const json& /*old*/) {
  const json& spec = self.at("spec");
  std::string cidr = spec.at("cidr");
  const char* const zero = cidr.starts_with(':') ? "0" : "";
  std::ranges::replace(cidr, ':', '-');
  std::ranges::replace(cidr, '/', '-');
  const std::string space = spec.at("space");
  return NameOf(self) == (space == "default" ? "" : space + ".") + zero + cidr;
}

bool OffsetsLieInside(const json& self, const json& /*old*/) {
  const auto cidr = CidrAt(self.at("spec"), "cidr");
  if (!cidr) return true;
  return std::ranges::all_of(self.at("allocations").items(), [&](const auto& entry) {
    const std::string& key = entry.key();
    const bool is_number = !key.empty() && key.size() <= 3 &&
                           std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; }) &&
                           (key.size() == 1 || key[0] != '0');
    return is_number && cidr->LastOffset() >= std::stoul(key);
  });
}

bool SaysAddressesTwice(const json& self, const json& /*old*/) {
  const auto texts = SplitAt(self.at("ips").get<std::string>(), ',');
  const json& addresses = self.at("addresses");
  return texts.size() == addresses.size() && std::ranges::all_of(addresses, [&](const json& one) {
           return std::ranges::find(texts, one.at("address").get<std::string>()) != texts.end();
         });
}

bool ValuesFit(const json& self, const json& /*old*/) {
  const bool takes_values = self.at("operator") == "In" || self.at("operator") == "NotIn";
  return takes_values == (SizeAt(self, "values") > 0);
}

bool IsNamedByAttachment(const json& self, const json& /*old*/) {
  const std::string name = NameOf(self);
  const auto is_hex = [](std::string_view text) { return text.find_first_not_of("0123456789abcdef") == text.npos; };
  const auto parts = SplitAt(name, '-');
  constexpr std::size_t kContainer = 12;
  constexpr std::size_t kRest = 16;
  if (parts.size() < 3) return false;
  const std::string& container = parts[parts.size() - 2];
  const std::string& rest = parts.back();
  return container.size() == kContainer && is_hex(container) && rest.size() == kRest && is_hex(rest) &&
         name.size() > kContainer + kRest + 2;
}

struct KnownRule {
  const char* begin;
  ModelRule rule;
};
constexpr KnownRule kRules[] = {
    {"self == oldSelf", [](const json& self, const json& old) { return self == old; }},
    {"size(self.metadata.name) <= 63", [](const json& self, const json&) { return NameOf(self).size() <= kNameMax; }},
    {"size(self.metadata.name) <= 19 && !self.metadata.name.contains('.')",
     [](const json& self, const json&) {
       return NameOf(self).size() <= kSpaceNameMax && NameOf(self).find('.') == std::string::npos;
     }},
    {"self.metadata.name.matches('^.+-[0-9a-f]{12}-[0-9a-f]{16}$')", IsNamedByAttachment},
    {"oldSelf.hasValue() || self.metadata.name == (self.spec.space == 'default'", NameFollows},
    {"self.used == size(self.allocations)",
     [](const json& self, const json&) { return self.at("used") == self.at("allocations").size(); }},
    {"self.spec.cidr.endsWith('/26') || self.spec.cidr.endsWith('/122') ? self.allocations.all(k, k in",
     OffsetsLieInside},
    {"isCIDR(self) && cidr(self) == cidr(self).masked() && string(cidr(self)) == self",
     [](const json& self, const json&) { return IsCidr(self); }},
    {"isCIDR(self) ? cidr(self) == cidr(self).masked() && string(cidr(self)) == self : size(self.split('-'))",
     [](const json& self, const json&) { return IsRange(self); }},
    {"isIP(self) && ip.isCanonical(self)", [](const json& self, const json&) { return IsAddress(self); }},
    {"!isCIDR(self) || cidr(self).prefixLength() >= (cidr(self).ip().family() == 4 ? 24 : 120)",
     [](const json& self, const json&) {
       const auto cidr = CidrOf(self);
       return !cidr || cidr->length() >= (IsFour(*cidr) ? 24 : 120);
     }},
    {"has(self.blockSize) == has(oldSelf.blockSize)",
     [](const json& self, const json& old) { return self.value("blockSize", 0) == old.value("blockSize", 0); }},
    {"!has(self.blockSize) || !isCIDR(self.subnet)", BlockSizeFits},
    {"!has(self.prefixLength) || !isCIDR(self.subnet)", PrefixLengthFits},
    {"!has(self.gateway) || !isIP(self.gateway)", GatewayIsReached},
    {"!has(self.ranges) || !isCIDR(self.subnet)",
     [](const json& self, const json&) { return LieInsideSubnet(self, "ranges"); }},
    {"!has(self.exclude) || !isCIDR(self.subnet)",
     [](const json& self, const json&) { return LieInsideSubnet(self, "exclude"); }},
    {"!has(self.gw) || !isIP(self.gw) || !isCIDR(self.dst)", NextHopFits},
    {"(has(self.matchLabels) ? size(self.matchLabels) : 0) + (has(self.matchExpressions)",
     [](const json& self, const json&) {
       return SizeAt(self, "matchLabels") + SizeAt(self, "matchExpressions") <= kSelectorTermsMax;
     }},
    {"self.all(k, size(k) >= 1 && size(k) <= 317)",
     [](const json& self, const json&) {
       return std::ranges::all_of(
           self.items(), [](const auto& label) { return !label.key().empty() && label.key().size() <= kLabelKeyMax; });
     }},
    {"self.operator in ['In', 'NotIn'] ? has(self.values)", ValuesFit},
    {"(has(self.pools) ? self.pools : 0) == (has(self.accepted)",
     [](const json& self, const json&) { return self.value("pools", std::size_t{0}) == SizeAt(self, "accepted"); }},
    {"size(self.ips.split(',')) == size(self.addresses)", SaysAddressesTwice},
};

}  // namespace

ModelRule RuleOf(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\n';
    if (!is_blank || !line.ends_with(' ')) line.push_back(is_blank ? ' ' : c);
  }
  // If several beginnings match, the longest counts.
  const KnownRule* best = nullptr;
  for (const KnownRule& known : kRules) {
    if (!line.starts_with(known.begin)) continue;
    if (best == nullptr || std::string_view(known.begin).size() > std::string_view(best->begin).size()) best = &known;
  }
  if (best == nullptr) throw std::runtime_error("model_rules.cc does not know the rule: " + line);
  return best->rule;
}

}  // namespace berth::k8sclient::testing
