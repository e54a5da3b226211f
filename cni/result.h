// SPDX-License-Identifier: Apache-2.0
// Result: the text that an ADD prints, in the form of each CNI version (CNI SPEC, "Success", abbreviated form for IPAM
// plugins).
//
// A result never contains `interfaces` or `ips[].interface`: the interface plugin adds them.
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
  int prefix_length = 0;  // the pool's spec.prefixLength, or else the prefix length of its subnet
  std::optional<ipam::Address> gateway;
  friend bool operator==(const ResultAddress&, const ResultAddress&) = default;
};

struct Result {
  std::vector<ResultAddress> addresses;  // in the order of printing
  std::vector<ipam::Route> routes;
  ipam::Dns dns;
  friend bool operator==(const Result&, const Result&) = default;
};

// One line of JSON. Only version 1.1.0 has attributes of routes (mtu, priority, ...). Versions 0.1.0 and 0.2.0 have at
// most one address of each family, with the routes of that family.
// Errors: kInvalid, with the version: no address, or two addresses of one family before 0.3.0.
[[nodiscard]] Expected<std::string> ResultJson(const Result& result, Version version);

}  // namespace berth::cni
