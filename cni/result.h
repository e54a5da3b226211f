// SPDX-License-Identifier: Apache-2.0
// Result: what an ADD prints, in the shape of each CNI version (CNI SPEC, "Success", abbreviated form for IPAM
// plugins).
//
// No `interfaces` and no `ips[].interface` in any version: those are the interface plugin's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cni/version.h"
#include "ipam/address.h"
#include "ipam/pool.h"

namespace berth::cni {

struct ResultAddress {
  ipam::Address address;
  int prefix_length = 0;  // of the subnet, not of what the address needs
  std::optional<ipam::Address> gateway;
  friend bool operator==(const ResultAddress&, const ResultAddress&) = default;
};

struct Result {
  std::vector<ResultAddress> addresses;  // in the order in which they shall be printed
  std::vector<ipam::Route> routes;
  ipam::Dns dns;
  friend bool operator==(const Result&, const Result&) = default;
};

// One line of JSON. Route attributes (mtu, priority, ...) only in 1.1.0; 0.1.0 and 0.2.0 hold one address of each
// family, with the routes of that family.
// Errors: kInvalid, naming the version: no address, or two of one family before 0.3.0.
[[nodiscard]] Expected<std::string> ResultJson(const Result& result, Version version);

}  // namespace berth::cni
