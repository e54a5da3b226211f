// SPDX-License-Identifier: Apache-2.0
// Binds the sockets, and writes kubeconfigs with their ports.
#include "e2e/conformance/api_away.h"

#include <arpa/inet.h>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace berth::conformance {

RefusingServer::RefusingServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  port_ = ntohs(address.sin_port);
}

RefusingServer::~RefusingServer() { ::close(fd_); }

SilentServer::SilentServer() {
  constexpr int kBacklog = 128;
  if (::listen(fd_, kBacklog) != 0) throw std::runtime_error("listen");
}

std::string WriteKubeconfig(const std::string& directory, const std::string& url) {
  const Settings& settings = Settings::Get();
  std::stringstream text;
  text << std::ifstream(settings.NodeKubeconfig(settings.NodeName())).rdbuf();
  std::string config = text.str();
  const std::size_t server = config.find("server: ") + std::string("server: ").size();
  config.replace(server, config.find('\n', server) - server, url);
  static int count = 0;
  std::string path = directory + "/kubeconfig-" + std::to_string(++count);
  std::ofstream(path) << config;
  return path;
}

Call WithKubeconfig(const Call& call, const std::string& path) {
  Call changed = call;
  changed.config["ipam"]["kubeconfig"] = path;
  return changed;
}

}  // namespace berth::conformance
