// SPDX-License-Identifier: Apache-2.0
// Opens the sockets on which a server listens: a UNIX socket with a path, and a TCP socket.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <string>

#include "base/error.h"

namespace berth::http {

using Protocol = boost::asio::generic::stream_protocol;
using Acceptor = boost::asio::basic_socket_acceptor<Protocol>;

// The longest path of a UNIX socket: sockaddr_un, unix(7).
inline constexpr std::size_t kPathBytesMax = 107;

// The number of callers that may wait in the kernel until the server accepts them.
inline constexpr int kBacklog = 1024;

// Listens on a UNIX socket with mode 0600, which replaces an existing file. Errors: kInvalid (the path is too long),
// kIo.
[[nodiscard]] Expected<Acceptor> ListenLocal(boost::asio::io_context& io, const std::string& path);

struct TcpAcceptor {
  Acceptor acceptor;
  int port;
};
// Listens on TCP. `text`: see HttpServerOptions::tcp_address. Errors: kInvalid (the text), kIo.
[[nodiscard]] Expected<TcpAcceptor> ListenTcp(boost::asio::io_context& io, const std::string& text, bool shares_port);

}  // namespace berth::http
