// SPDX-License-Identifier: Apache-2.0
// The sockets on which a server listens: one with a path, one with an address and a port.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "base/error.h"

namespace berth::http {

using Protocol = boost::asio::generic::stream_protocol;
using Acceptor = boost::asio::basic_socket_acceptor<Protocol>;

// The number of callers that may wait in the kernel until the server accepts them.
inline constexpr int kBacklog = 1024;

// Both errors: kInvalid (the text), kIo.
[[nodiscard]] Expected<Acceptor> ListenLocal(boost::asio::io_context& io, const std::string& path);

struct TcpAcceptor {
  Acceptor acceptor;
  int port;
};
// `text` as HttpServerOptions::tcp_address.
[[nodiscard]] Expected<TcpAcceptor> ListenTcp(boost::asio::io_context& io, const std::string& text, bool shares_port);

}  // namespace berth::http
