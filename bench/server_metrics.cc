// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format, line by line.
#include "bench/server_metrics.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "k8sclient/status.h"

namespace berth::bench {

namespace {
constexpr std::size_t kMetricsBytesMax = std::size_t{64} << 20;
}  // namespace

Expected<ServerMetrics> ServerMetrics::Read(k8sclient::Api& api) {
  const k8sclient::Request request{.path = "/metrics", .accept = "text/plain", .response_bytes_max = kMetricsBytesMax};
  auto response = api.Call(request, k8sclient::CallOptions::Within(std::chrono::seconds(30)));
  if (!response) return std::unexpected(response.error().Within("read the API server's metrics"));
  if (!response->ok()) return std::unexpected(k8sclient::ToError(request, *response));
  return ServerMetrics(std::move(response->body));
}

double ServerMetrics::Sum(std::string_view name, std::initializer_list<std::string_view> labels) const {
  double sum = 0;
  for (std::string_view rest = text_; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t value_at = line.rfind(' ');
    if (value_at == std::string_view::npos || !line.starts_with(name)) continue;
    const std::string_view in_braces = line.substr(name.size(), value_at - name.size());
    if (!in_braces.empty() && in_braces.front() != '{') continue;  // a metric with a longer name
    const auto has = [in_braces](std::string_view label) {
      const std::size_t at = in_braces.find(label);
      // The match must be a whole label, not the end of a longer one.
      return at != std::string_view::npos && (in_braces[at - 1] == '{' || in_braces[at - 1] == ',');
    };
    if (std::ranges::all_of(labels, has)) sum += std::strtod(std::string(line.substr(value_at)).c_str(), nullptr);
  }
  return sum;
}

}  // namespace berth::bench
