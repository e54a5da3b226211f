// SPDX-License-Identifier: Apache-2.0
// EtcdMetrics: how many bytes etcd wrote to its write-ahead log, which is what an operation costs a disk.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::bench {

class EtcdMetrics {
 public:
  // `url`: where etcd listens for clients; empty: nothing is read, and every figure is 0. `pki`: the folder with the
  // certificates of a cluster of e2e/cluster. Errors: kDecode.
  [[nodiscard]] static Expected<EtcdMetrics> Make(const std::string& url, const std::string& pki);

  // Bytes since the start of etcd. Errors: those of the request; kInternal: the metric is missing.
  [[nodiscard]] Expected<double> LogBytes() const;

 private:
  std::unique_ptr<k8sclient::Api> api_;  // nullptr: nothing is read
};

// The value of a metric without labels in Prometheus' text format. Errors: kInternal: the metric is missing.
[[nodiscard]] Expected<double> MetricValue(std::string_view text, std::string_view name);

}  // namespace berth::bench
