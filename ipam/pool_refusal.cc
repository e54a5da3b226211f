// SPDX-License-Identifier: Apache-2.0
// WhyNotAssignable: the reason and the remedy, for a person who requested the address.
#include <algorithm>

#include "ipam/pool.h"

namespace berth::ipam {

Error WhyNotAssignable(const Pool& pool, Address address) {
  const std::string quoted = "requested address " + address.ToString();
  const auto holds = [address](const AddressRange& range) { return range.Contains(address); };
  const auto refuse = [&](ErrorCode code, const std::string& why, const std::string& remedy) {
    return Error{.code = code, .message = quoted + why, .details = remedy};
  };
  if (!pool.subnet.Contains(address)) {
    return refuse(ErrorCode::kInvalid,
                  " is outside pool " + pool.name + " (" + pool.subnet.ToString() + ")",
                  "ask for an address of the pool's subnet");
  }
  if (pool.gateway == address) {
    return refuse(ErrorCode::kAddressTaken, " is the gateway of pool " + pool.name, "ask for another address");
  }
  if (std::ranges::any_of(pool.withheld, holds)) {
    return refuse(ErrorCode::kAddressTaken,
                  " is reserved, or is a gateway, in space " + pool.space,
                  "see: kubectl get ipspace " + pool.space + " -o yaml, kubectl get ipreservations");
  }
  if (std::ranges::any_of(pool.excludes, holds)) {
    return refuse(ErrorCode::kInvalid, " is in spec.exclude of pool " + pool.name, "ask for another address");
  }
  if (!pool.ranges.empty() && std::ranges::none_of(pool.ranges, holds)) {
    return refuse(ErrorCode::kInvalid, " is outside spec.ranges of pool " + pool.name, "ask for an address in a range");
  }
  return refuse(ErrorCode::kInvalid,
                " is the first or last address of subnet " + pool.subnet.ToString(),
                "ask for another address, or set spec.allowEdgeAddresses of pool " + pool.name);
}

}  // namespace berth::ipam
