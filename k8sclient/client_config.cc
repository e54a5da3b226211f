// SPDX-License-Identifier: Apache-2.0
// ClientConfig: reads files, and finds the user name and the configuration of a pod.
#include "k8sclient/client_config.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "k8sclient/openssl.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;

}  // namespace

Expected<std::string> ReadWholeFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 16384> chunk{};
  ssize_t got = 1;
  while (file.is_open() && got != 0 && text.size() <= kFileBytesMax) {
    got = read(file.descriptor(), chunk.data(), chunk.size());
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  if (!file.is_open() || got < 0) return Fail(ErrorCode::kIo, "read \"" + path + "\": " + std::strerror(errno));
  if (text.size() > kFileBytesMax) return Fail(ErrorCode::kIo, "read \"" + path + "\": larger than 4 MiB");
  return text;
}

void LogToStderr(const std::string& line) {
  const std::string whole = line + "\n";
  // One write, so that lines of several processes do not mix.
  static_cast<void>(!write(STDERR_FILENO, whole.data(), whole.size()));
}

Expected<std::string> ReadMaterial(const Material& material, const ReadFile& read_file) {
  return material.text.empty() && !material.path.empty() ? read_file(material.path) : material.text;
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
    const Expected<std::string> pem = ReadMaterial(config.client_certificate, read_file);
    if (!pem) return Fail(ErrorCode::kDecode, config.source + ": client-certificate: " + pem.error().message);
    Expected<std::string> name = CommonName(*pem);
    if (!name) return std::unexpected(name.error().Within(config.source + ": client-certificate"));
    if (!name->empty()) return name;
  }
  return config.username.empty() ? config.user_entry : config.username;
}

Expected<ClientConfig> InClusterConfig(const GetEnvironment& environment, const std::string& directory) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return Fail(ErrorCode::kEnvironment,
                "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set",
                "give a kubeconfig, or run in a pod");
  }
  return ClientConfig{.source = "service account",
                      .server = "https://" + Bracketed(host) + ":" + port,
                      .certificate_authority = {.path = directory + "/ca.crt"},
                      .token = {.path = directory + "/token"}};
}

}  // namespace berth::k8sclient
