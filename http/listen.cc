// SPDX-License-Identifier: Apache-2.0
// Opens UNIX and TCP sockets with Asio.
#include "http/listen.h"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

// NOLINTBEGIN(bugprone-unused-return-value): what Asio returns is also in the argument `error`
namespace berth::http {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// An IP address, and the range of ports to try. No address: every address of the machine.
struct TcpPlace {
  std::optional<asio::ip::address> address;
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [rest, wrong] = std::from_chars(text.begin(), text.end(), port);
  if (wrong != std::errc() || rest != text.end()) return std::nullopt;
  return port;
}

Expected<TcpPlace> ParseTcpPlace(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    return Fail(ErrorCode::kInvalid, "address " + Quoted(text) + " has no port; write it as 127.0.0.1:9745");
  const std::string_view ports = std::string_view(text).substr(colon + 1);
  const std::size_t dash = ports.find('-');
  const bool is_range = dash != std::string_view::npos;
  const auto first = ParsePort(ports.substr(0, dash));
  const auto last = is_range ? ParsePort(ports.substr(dash + 1)) : first;
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code error;
  std::optional<asio::ip::address> address;
  if (!host.empty()) address = asio::ip::make_address(host, error);
  if (error || !first || !last || *last < *first || (is_range && *first == 0)) {
    return Fail(ErrorCode::kInvalid,
                "address " + Quoted(text) +
                    " is no address and port; write it as 127.0.0.1:9745, or with a range of ports as "
                    "127.0.0.1:9746-9749");
  }
  return TcpPlace{.address = address, .first = *first, .last = *last};
}

void Listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool shares_port, error_code& error) {
  // With SO_REUSEPORT, another process of this user may listen while this process still listens, as during an update.
  using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
  acceptor.close(error);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.set_option(ReusePort(shares_port), error);
  if (!error && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
}

}  // namespace

Expected<Acceptor> ListenLocal(asio::io_context& io, const std::string& path) {
  if (path.size() > kPathBytesMax) {
    return Fail(ErrorCode::kInvalid,
                "socket " + path + " has " + std::to_string(path.size()) + " characters, at most 107 are possible");
  }
  // Binds the socket under another name and renames it once it listens, so that the path never leads to a socket on
  // which no process listens.
  const std::string part = path.substr(0, 96) + "." + std::to_string(std::random_device{}());
  asio::local::stream_protocol::acceptor acceptor(io);
  error_code error;
  acceptor.open({}, error);
  const mode_t before = umask(0177);
  if (!error) acceptor.bind({part}, error);
  umask(before);
  if (!error) acceptor.listen(kBacklog, error);
  if (!error && rename(part.c_str(), path.c_str()) != 0) error.assign(errno, boost::system::system_category());
  if (!error) return Acceptor(std::move(acceptor));
  unlink(part.c_str());
  return Fail(ErrorCode::kIo, "listen on " + path + ": " + error.message());
}

Expected<TcpAcceptor> ListenTcp(asio::io_context& io, const std::string& text, bool shares_port) {
  const auto place = ParseTcpPlace(text);
  if (!place) return std::unexpected(place.error());
  tcp::acceptor acceptor(io);
  error_code error = asio::error::address_in_use;
  for (unsigned number = place->first; number <= place->last && error == asio::error::address_in_use; ++number) {
    const auto port = static_cast<std::uint16_t>(number);
    Listen(acceptor, {place->address.value_or(asio::ip::address_v6::any()), port}, shares_port, error);
    // If the machine has no IPv6, listen on IPv4.
    if (error == asio::error::address_family_not_supported && !place->address)
      Listen(acceptor, {asio::ip::address_v4::any(), port}, shares_port, error);
  }
  if (error) return Fail(ErrorCode::kIo, "listen on " + text + ": " + error.message());
  const int port = acceptor.local_endpoint(error).port();
  return TcpAcceptor{.acceptor = std::move(acceptor), .port = port};
}

}  // namespace berth::http
// NOLINTEND(bugprone-unused-return-value)
