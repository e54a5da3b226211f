// SPDX-License-Identifier: Apache-2.0
// ServerMetrics: what the API server counted, from the text at its path /metrics.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::bench {

class ServerMetrics {
 public:
  // Errors: those of the request.
  [[nodiscard]] static Expected<ServerMetrics> Read(k8sclient::Api& api);
  explicit ServerMetrics(std::string text) : text_(std::move(text)) {}

  // The sum of all lines of the metric that have these labels, each written as `verb="POST"`; 0 if there are none.
  [[nodiscard]] double Sum(std::string_view name, std::initializer_list<std::string_view> labels) const;

 private:
  std::string text_;
};

}  // namespace berth::bench
