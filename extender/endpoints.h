// SPDX-License-Identifier: Apache-2.0
// The EndpointSlice by which callers of the Service berth-extender reach the controller that leads.
//
// The Service has no selector, so Kubernetes leaves its endpoints to us.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "ipam/error.h"
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
[[nodiscard]] ipam::Expected<void> WriteEndpoint(k8sclient::Api& api, const Endpoint& endpoint,
                                                 const k8sclient::CallOptions& options);
// Does so at once and again and again, until stop is requested. Logs failures.
void KeepEndpoint(k8sclient::Api& api, k8sclient::Clock& clock, const Endpoint& endpoint, const std::stop_token& stop);

}  // namespace berth::extender
