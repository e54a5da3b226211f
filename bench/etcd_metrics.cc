// SPDX-License-Identifier: Apache-2.0
// etcd speaks HTTP with client certificates, as the API server does, so the same client reads etcd's metrics.
#include "bench/etcd_metrics.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"

namespace berth::bench {

Expected<EtcdMetrics> EtcdMetrics::Make(const std::string& url, const std::string& pki) {
  EtcdMetrics metrics;
  if (url.empty()) return metrics;
  k8sclient::ClientConfig config{.source = "etcd", .server = url};
  config.certificate_authority.path = pki + "/etcd-ca.crt";
  config.client_certificate.path = pki + "/etcd-client.crt";
  config.client_key.path = pki + "/etcd-client.key";
  auto api = k8sclient::MakeHttpApi(std::move(config), {.user_agent = "berth-bench"});
  if (!api) return std::unexpected(api.error());
  metrics.api_ = *std::move(api);
  return metrics;
}

Expected<double> EtcdMetrics::LogBytes() const {
  if (!api_) return 0;
  const auto response =
      api_->Call({.path = "/metrics", .accept = "text/plain"}, k8sclient::CallOptions::Within(std::chrono::seconds(5)));
  if (!response) return std::unexpected(response.error().Within("read etcd's metrics"));
  return MetricValue(response->body, "etcd_disk_wal_write_bytes_total");
}

Expected<double> MetricValue(std::string_view text, std::string_view name) {
  const std::string start = "\n" + std::string(name) + " ";
  const std::size_t at = text.find(start);
  if (at == std::string_view::npos) return Fail(ErrorCode::kInternal, "no metric " + std::string(name));
  return std::strtod(std::string(text.substr(at + start.size(), 32)).c_str(), nullptr);
}

}  // namespace berth::bench
