// SPDX-License-Identifier: Apache-2.0
// Proxies, by Go's rules: golang.org/x/net/http/httpproxy.
#include "k8sclient/proxy.h"

#include <algorithm>
#include <charconv>

#include "ipam/address.h"
#include "ipam/prefix.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {
namespace {

using ipam::Address;
using ipam::Prefix;

std::optional<Address> AsAddress(const std::string& text) {
  const Expected<Address> address = Address::Parse(text);
  return address ? std::optional(*address) : std::nullopt;
}

bool IsThisMachine(const std::string& host) {
  static const Prefix kLoopback = *Prefix::Parse("127.0.0.0/8");
  static const Address kLoopback6 = *Address::Parse("::1");
  const auto address = AsAddress(host);
  return host == "localhost" || (address && (kLoopback.Contains(*address) || *address == kLoopback6));
}

// Reads "10.0.0.0/8". Unlike in a pool's subnet, host bits may be set: AsPrefix masks them, as Go does.
std::optional<Prefix> AsPrefix(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return {};
  const auto address = AsAddress(text.substr(0, slash));
  int length = -1;
  const char* const end = text.data() + text.size();
  const bool number = std::from_chars(text.data() + slash + 1, end, length).ptr == end;
  if (!address || !number || length < 0 || length > AddressBits(address->family())) return {};
  return Prefix::Around(*address, length);
}

// True if an item of NO_PROXY covers the host and port. `item` is in lower case and without blanks.
bool Covers(std::string item, const std::string& host, std::uint16_t port) {
  if (item == "*") return true;
  const auto address = AsAddress(host);
  if (const auto prefix = AsPrefix(item))
    return address && prefix->family() == address->family() && prefix->Contains(*address);
  const std::string port_suffix = ":" + std::to_string(port);
  const bool has_port =
      item.starts_with('[') ? item.find("]:") != std::string::npos : std::ranges::count(item, ':') == 1;
  if (has_port) {
    if (!item.ends_with(port_suffix)) return false;
    item.resize(item.size() - port_suffix.size());
  }
  if (item.starts_with('[') && item.ends_with(']')) item = item.substr(1, item.size() - 2);
  if (item.empty()) return false;
  if (const auto item_address = AsAddress(item)) return address == item_address;
  if (item.starts_with("*.")) item.erase(0, 1);
  if (item.front() == '.') return host.ends_with(item);
  return host == item || host.ends_with("." + item);
}

bool IsExcepted(const std::string& no_proxy, const std::string& host, std::uint16_t port) {
  std::size_t start = 0;
  while (start < no_proxy.size()) {
    const std::size_t end = std::min(no_proxy.find(',', start), no_proxy.size());
    const std::string item = Trimmed(Lower(no_proxy.substr(start, end - start)));
    if (!item.empty() && Covers(item, host, port)) return true;
    start = end + 1;
  }
  return false;
}

std::string Either(const GetEnvironment& environment, const char* upper, const char* lower) {
  const std::string value = environment(upper);
  return value.empty() ? environment(lower) : value;
}

}  // namespace

Expected<std::optional<ServerUrl>> ChooseProxy(const std::string& proxy_url, const ServerUrl& server,
                                               const GetEnvironment& environment) {
  std::string url = proxy_url;
  std::string where = "proxy-url";
  if (url.empty()) {
    const bool https = server.scheme == "https";
    where = https ? "HTTPS_PROXY" : "HTTP_PROXY";
    url = https ? Either(environment, "HTTPS_PROXY", "https_proxy") : Either(environment, "HTTP_PROXY", "http_proxy");
    const std::string host = Lower(server.host);
    if (url.empty() || IsThisMachine(host)) return std::nullopt;
    if (IsExcepted(Either(environment, "NO_PROXY", "no_proxy"), host, server.port)) return std::nullopt;
    if (url.find("://") == std::string::npos) url = "http://" + url;  // Go accepts "proxy:3128" in the environment
  }
  Expected<ServerUrl> proxy = ParseServerUrl(url);
  if (!proxy) return std::unexpected(proxy.error().Within(where));
  return std::optional(std::move(*proxy));
}

}  // namespace berth::k8sclient
