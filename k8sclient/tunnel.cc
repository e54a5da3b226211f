// SPDX-License-Identifier: Apache-2.0
// OpenTunnel: see the header.
#include "k8sclient/tunnel.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <string>
#include <string_view>

#include "k8sclient/base64.h"

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

constexpr std::size_t kProxyHeadBytesMax = std::size_t{16} * 1024;

// Exactly so many bytes: what follows them belongs to the target.
Expected<std::string> ReadExactly(ByteStream& stream, std::size_t count, Waiter& waiter) {
  std::string bytes(count, '\0');
  for (std::size_t have = 0; have < count;) {
    const Expected<std::size_t> got = stream.Read(std::span(bytes).subspan(have), waiter);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) return Fail(ErrorCode::kUnavailable, "the proxy closed the connection");
    have += *got;
  }
  return bytes;
}

Expected<void> Connect(ByteStream& stream, const ServerUrl& proxy, const ServerUrl& target, Waiter& waiter) {
  std::string request = "CONNECT " + target.Authority() + " HTTP/1.1\r\nHost: " + target.Authority() + "\r\n";
  if (!proxy.user.empty()) {
    request += "Proxy-Authorization: Basic " + EncodeBase64(proxy.user + ":" + proxy.password) + "\r\n";
  }
  if (const Expected<void> sent = stream.Write(request + "\r\n", waiter); !sent) return sent;
  std::string head;
  while (!head.ends_with("\r\n\r\n")) {
    const Expected<std::string> byte = ReadExactly(stream, 1, waiter);
    if (!byte) return std::unexpected(byte.error());
    head += *byte;
    if (head.size() > kProxyHeadBytesMax) return Fail(ErrorCode::kUnavailable, "the proxy's answer is too long");
  }
  const bool accepted = (head.starts_with("HTTP/1.1 2") || head.starts_with("HTTP/1.0 2")) && head.size() > 12;
  if (accepted) return {};
  return Fail(ErrorCode::kUnavailable,
              "the proxy refuses: \"" + head.substr(0, std::min<std::size_t>(head.find('\r'), 200)) + "\"");
}

std::string_view SocksFailure(unsigned char code) {
  constexpr std::array<std::string_view, 9> kTexts = {"",
                                                      "general failure",
                                                      "not allowed by its rules",
                                                      "network unreachable",
                                                      "host unreachable",
                                                      "connection refused",
                                                      "time to live expired",
                                                      "command not supported",
                                                      "address type not supported"};
  return code < kTexts.size() ? kTexts[code] : "unknown failure";
}

std::string SocksAddress(const ServerUrl& target) {
  std::array<char, sizeof(in6_addr)> binary{};
  std::string address;
  if (inet_pton(AF_INET, target.host.c_str(), binary.data()) == 1) {
    address = '\x01' + std::string(binary.data(), sizeof(in_addr));
  } else if (inet_pton(AF_INET6, target.host.c_str(), binary.data()) == 1) {
    address = '\x04' + std::string(binary.data(), sizeof(in6_addr));
  } else {
    address = '\x03' + std::string(1, static_cast<char>(target.host.size())) + target.host;
  }
  return address + static_cast<char>(target.port >> 8) + static_cast<char>(target.port & 0xff);
}

Expected<void> SocksLogIn(ByteStream& stream, const ServerUrl& proxy, Waiter& waiter) {
  const std::string request = '\x01' + std::string(1, static_cast<char>(proxy.user.size())) + proxy.user +
                              static_cast<char>(proxy.password.size()) + proxy.password;
  if (const Expected<void> sent = stream.Write(request, waiter); !sent) return sent;
  const Expected<std::string> answer = ReadExactly(stream, 2, waiter);
  if (!answer) return std::unexpected(answer.error());
  if ((*answer)[1] != 0) return Fail(ErrorCode::kUnavailable, "the proxy does not accept the user and password");
  return {};
}

Expected<void> SocksConnect(ByteStream& stream, const ServerUrl& proxy, const ServerUrl& target, Waiter& waiter) {
  using std::string_view_literals::operator""sv;
  constexpr std::size_t kTextBytesMax = 255;  // lengths are one byte
  if (std::max({target.host.size(), proxy.user.size(), proxy.password.size()}) > kTextBytesMax) {
    return Fail(ErrorCode::kUnavailable, "host, user or password is too long for SOCKS5");
  }
  const bool has_user = !proxy.user.empty();
  if (const Expected<void> sent = stream.Write(has_user ? "\x05\x02\x00\x02"sv : "\x05\x01\x00"sv, waiter); !sent) {
    return sent;
  }
  const Expected<std::string> method = ReadExactly(stream, 2, waiter);
  if (!method) return std::unexpected(method.error());
  if ((*method)[0] != 5) return Fail(ErrorCode::kUnavailable, "the proxy does not speak SOCKS5");
  if ((*method)[1] == 2 && has_user) {
    if (const Expected<void> logged_in = SocksLogIn(stream, proxy, waiter); !logged_in) return logged_in;
  } else if ((*method)[1] != 0) {
    return Fail(ErrorCode::kUnavailable, "the proxy wants a user and password");
  }
  const std::string connect = std::string("\x05\x01\x00"sv) + SocksAddress(target);
  if (const Expected<void> sent = stream.Write(connect, waiter); !sent) return sent;
  const Expected<std::string> answer = ReadExactly(stream, 5, waiter);
  if (!answer) return std::unexpected(answer.error());
  if ((*answer)[1] != 0) {
    return Fail(ErrorCode::kUnavailable,
                "the proxy refuses: " + std::string(SocksFailure(static_cast<unsigned char>((*answer)[1]))));
  }
  // The address it connects from, whose first byte was read already, and a port.
  const std::size_t rest = (*answer)[3] == 1 ? 3 : (*answer)[3] == 4 ? 15 : static_cast<unsigned char>((*answer)[4]);
  const Expected<std::string> bound = ReadExactly(stream, rest + 2, waiter);
  if (!bound) return std::unexpected(bound.error());
  return {};
}

}  // namespace

Expected<void> OpenTunnel(ByteStream& stream, const ServerUrl& proxy, const ServerUrl& target, Waiter& waiter) {
  const Expected<void> opened =
      proxy.scheme == "socks5" ? SocksConnect(stream, proxy, target, waiter) : Connect(stream, proxy, target, waiter);
  if (opened) return {};
  ipam::Error error = opened.error().Within("proxy " + proxy.Authority());
  if (error.details.empty()) error.details = "check proxy-url in the kubeconfig, or HTTPS_PROXY and NO_PROXY";
  return std::unexpected(std::move(error));
}

}  // namespace berth::k8sclient
