// SPDX-License-Identifier: Apache-2.0
// Writes two objects: one tells kube-scheduler the address of the leading controller, and one wakes kube-scheduler.
//
// The EndpointSlice of the Service berth-extender has the controller's address: the Service has no selector, so
// Kubernetes leaves its endpoints to the controller. If an extender has refused a pod, kube-scheduler tries the pod
// again only after five minutes, or when certain objects change that kube-scheduler watches. kube-scheduler watches no
// object of berth, and an address may become free without a change of an object that kube-scheduler watches. So the
// controller keeps a CSIStorageCapacity of a storage class that does not exist, and changes this object when more
// addresses are free.
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
// How often the controller reads the slice, so that it can undo an edit by hand.
inline constexpr std::chrono::seconds kEndpointPeriod{10};

struct Endpoint {
  std::string name_space;
  std::string address;  // an IP address
  std::uint16_t port = 0;
};

// Makes `endpoint` the only endpoint in the EndpointSlice of the Service berth-extender for the endpoint's IP family.
// Errors: those of the requests.
[[nodiscard]] Expected<void> WriteEndpoint(k8sclient::Api& api, const Endpoint& endpoint,
                                           const k8sclient::CallOptions& options);
// Makes kube-scheduler try again to place the pods for which it found no node. `stamp` has to differ from the `stamp`
// of the previous call. Errors: those of the requests.
[[nodiscard]] Expected<void> WakeScheduler(k8sclient::Api& api, const std::string& name_space, std::int64_t stamp,
                                           const k8sclient::CallOptions& options);
// Writes the endpoint at once and then every kEndpointPeriod, until stop is requested. Logs a failure, and tries again
// after 1 s.
void KeepEndpoint(k8sclient::Api& api, k8sclient::Clock& clock, const Endpoint& endpoint, const std::stop_token& stop);

}  // namespace berth::extender
