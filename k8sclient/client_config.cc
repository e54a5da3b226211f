// SPDX-License-Identifier: Apache-2.0
// ClientConfig: reads files, and finds the user name and the configuration of a pod.
#include "k8sclient/client_config.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "k8sclient/openssl.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;

}  // namespace

Expected<std::string> ReadWholeFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(ErrorCode::kIo, "read \"" + path + "\": " + std::strerror(errno));
  std::string text;
  ssize_t got = 0;
  do {
    constexpr std::size_t kChunk = 16384;
    const std::size_t size = text.size();
    text.resize(size + kChunk);
    got = read(file, text.data() + size, kChunk);
    text.resize(size + static_cast<std::size_t>(got > 0 ? got : 0));
  } while ((got > 0 && text.size() <= kFileBytesMax) || (got < 0 && errno == EINTR));
  const int failure = got < 0 ? errno : 0;
  close(file);
  if (failure != 0) return Fail(ErrorCode::kIo, "read \"" + path + "\": " + std::strerror(failure));
  if (text.size() > kFileBytesMax) return Fail(ErrorCode::kIo, "read \"" + path + "\": larger than 4 MiB");
  return text;
}

std::string ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

std::string Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

Expected<std::string> UserName(const ClientConfig& config, const ReadFile& read_file) {
  if (!config.impersonate_user.empty()) return config.impersonate_user;
  if (!config.client_certificate.empty()) {
    Expected<std::string> pem = config.client_certificate.text;
    if (pem->empty()) pem = read_file(config.client_certificate.path);
    if (!pem) return Fail(ErrorCode::kDecode, config.source + ": client-certificate: " + pem.error().message);
    Expected<std::string> name = CommonName(*pem);
    if (!name) return std::unexpected(name.error().Within(config.source + ": client-certificate"));
    if (!name->empty()) return name;
  }
  return config.username.empty() ? config.user_entry : config.username;
}

Expected<ClientConfig> InClusterConfig(const GetEnvironment& environment, const ReadFile& read_file,
                                       const std::string& directory) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return Fail(ErrorCode::kEnvironment,
                "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set",
                "give a kubeconfig, or run in a pod");
  }
  ClientConfig config{.source = "service account",
                      .server = "https://" + Bracketed(host) + ":" + port,
                      .certificate_authority = {.path = directory + "/ca.crt"},
                      .token = {.path = directory + "/token"}};
  const Expected<std::string> name_space = read_file(directory + "/namespace");
  config.default_namespace = name_space ? Trimmed(*name_space) : std::string();
  if (config.default_namespace.empty()) config.default_namespace = "default";
  return config;
}

}  // namespace berth::k8sclient
