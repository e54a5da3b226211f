// SPDX-License-Identifier: Apache-2.0
// Chooses the source of the requested addresses, and parses the addresses.
#include <algorithm>
#include <charconv>
#include <utility>

#include "cni/config.h"

namespace berth::cni {
namespace {

using ipam::Address;

// "address" or "address/length".
Expected<Address> ParseOne(std::string_view text) {
  const std::size_t slash = text.find('/');
  Expected<Address> address = Address::Parse(text.substr(0, slash));
  if (!address || slash == std::string_view::npos) return address;
  const std::string_view length = text.substr(slash + 1);
  int bits = -1;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
  if (error != std::errc{} || end != length.data() + length.size() || bits < 0 ||
      bits > AddressBits(address->family())) {
    return Fail(ErrorCode::kInvalid, Quoted(text) + " has no valid prefix length after the /");
  }
  return address;
}

template <typename Texts>
Expected<std::vector<Address>> ParseAll(const Texts& texts) {
  std::vector<Address> addresses;
  for (const auto& text : texts) {
    const Expected<Address> address = ParseOne(text);
    if (!address) return std::unexpected(address.error());
    const auto same_family = [&](const Address& other) { return other.family() == address->family(); };
    if (const auto other = std::ranges::find_if(addresses, same_family); other != addresses.end()) {
      return Fail(ErrorCode::kInvalid,
                  "requests two " + std::string(ToString(address->family())) + " addresses, " + other->ToString() +
                      " and " + address->ToString(),
                  "an interface gets one address of each family");
    }
    addresses.push_back(*address);
  }
  return addresses;
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.push_back(text);
  return parts;
}

Expected<std::vector<Address>> Named(Expected<std::vector<Address>> addresses, std::string_view source) {
  if (addresses) return addresses;
  return std::unexpected(addresses.error().Within(source));
}

}  // namespace

Expected<std::vector<Address>> ParseAddressList(std::string_view text) { return ParseAll(SplitAtCommas(text)); }

Expected<std::vector<Address>> RequestedAddresses(const NetworkConfig& config, const Args& args) {
  if (!config.runtime_ips.empty()) return Named(ParseAll(config.runtime_ips), "runtimeConfig.ips");
  if (!config.args_ips.empty()) return Named(ParseAll(config.args_ips), "args.cni.ips");
  if (args.ip.empty()) return std::vector<Address>{};
  Expected<std::vector<Address>> addresses = Named(ParseAddressList(args.ip), "CNI_ARGS IP");
  if (!addresses) addresses.error().code = ErrorCode::kEnvironment;
  return addresses;
}

}  // namespace berth::cni
