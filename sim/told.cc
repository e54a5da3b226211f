// SPDX-License-Identifier: Apache-2.0
// Reads addresses from results of ADDs and from blocks.
#include <algorithm>
#include <charconv>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "ipam/pool.h"
#include "ipam/prefix.h"
#include "reconciler/suspects.h"
#include "sim/checkers.h"

namespace berth::sim {

using nlohmann::json;

std::string InSpace(std::string_view address, std::string_view space) {
  return space == ipam::kDefaultSpace ? std::string(address) : fmt::format("{}@{}", address, space);
}

Addresses InSpace(const Addresses& addresses, std::string_view space) {
  Addresses named;
  for (const std::string& address : addresses) named.insert(InSpace(address, space));
  return named;
}

std::string SpaceOf(const json& object) { return object["spec"].value("space", std::string(ipam::kDefaultSpace)); }

Addresses AddressesIn(const std::string& result) {
  Addresses addresses;
  const json parsed = json::parse(result);
  for (const json& ip : parsed["ips"]) {
    const auto& text = ip["address"].get_ref<const std::string&>();
    addresses.insert(text.substr(0, text.find('/')));
  }
  return addresses;
}

std::string ToText(const Addresses& addresses) { return fmt::format("{}", fmt::join(addresses, " and ")); }

bool IsIpv6(std::string_view address) { return address.find(':') != std::string_view::npos; }

RecordedAddresses RecordedIn(const json& block) {
  RecordedAddresses recorded;
  const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
  const std::string space = SpaceOf(block);
  const json allocations = block.value("allocations", json::object());
  for (const auto& [offset, entry] : allocations.items()) {
    std::uint32_t number = 0;
    std::from_chars(offset.data(), offset.data() + offset.size(), number);
    ipam::Attachment attachment(ipam::AttachmentOf(entry.get_ref<const std::string&>()));
    if (!attachment.empty()) recorded.emplace(std::move(attachment), InSpace(cidr->At(number).ToString(), space));
  }
  return recorded;
}

RecordedAddresses Told::Recorded(const json& block) const {
  RecordedAddresses recorded;
  for (const auto& [attachment, address] : RecordedIn(block)) {
    const auto has_it = [&address](const auto& told) { return told.second.contains(address); };
    const auto holder = std::ranges::find_if(addresses_, has_it);
    const bool was_put_back = attachment.starts_with(reconciler::kNoNetwork) && holder != addresses_.end();
    recorded.emplace(was_put_back ? holder->first : attachment, address);
  }
  return recorded;
}

}  // namespace berth::sim
