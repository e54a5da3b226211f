// SPDX-License-Identifier: Apache-2.0
// The two objects by which the controller that leads reaches kube-scheduler.
//
// The EndpointSlice of the Service berth-extender says where the controller is: the Service has no selector, so
// Kubernetes leaves its endpoints to us. And kube-scheduler tries a pod that an extender refused again only when an
// object changes that it watches, or after five minutes. It watches none of ours, and room in them comes without a
// change of a Node or a pod that it looks at. So the controller keeps a CSIStorageCapacity of a storage class that does
// not exist, and changes it when there is more room.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::extender {

inline constexpr const char* kServiceName = "berth-extender";
// How often the slice is read, so that an edit by hand does not last.
inline constexpr std::chrono::seconds kEndpointPeriod{10};

struct Endpoint {
  std::string name_space;
  std::string address;  // an IP address
  std::uint16_t port = 0;
};

// Makes the slice say that the Service's only endpoint is this one. Errors: those of the API.
[[nodiscard]] Expected<void> WriteEndpoint(k8sclient::Api& api, const Endpoint& endpoint,
                                           const k8sclient::CallOptions& options);
// Makes kube-scheduler try pods again that found no node. `stamp` differs from that of the call before. Errors: those
// of the API.
[[nodiscard]] Expected<void> WakeScheduler(k8sclient::Api& api, const std::string& name_space, std::int64_t stamp,
                                           const k8sclient::CallOptions& options);
// Writes the endpoint at once and again and again, until stop is requested. Logs failures.
void KeepEndpoint(k8sclient::Api& api, k8sclient::Clock& clock, const Endpoint& endpoint, const std::stop_token& stop);

}  // namespace berth::extender
