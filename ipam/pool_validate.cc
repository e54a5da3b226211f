// SPDX-License-Identifier: Apache-2.0
// Validate: the rules of a pool, and the message for people if the pool breaks one.
#include <algorithm>
#include <numeric>
#include <span>

#include "ipam/pool.h"

namespace berth::ipam {

namespace {

std::string Element(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

std::string_view Article(Family family) { return family == Family::kIPv4 ? "an IPv4" : "an IPv6"; }

// "<field> "<value>": <what is wrong>; <remedy>".
std::unexpected<Error> Refuse(const std::string& field, const std::string& value, const std::string& why_and_remedy) {
  return Fail(ErrorCode::kInvalid, field + " " + Quoted(value) + ": " + why_and_remedy);
}

Expected<void> CheckBlockLength(const Pool& pool) {
  if (!pool.block_length) return {};
  const int bits = AddressBits(pool.family());
  if (*pool.block_length >= bits - kBlockBitsMax && *pool.block_length <= bits) return {};
  return Refuse("spec.blockSize",
                std::to_string(*pool.block_length),
                "blocks of " + std::string(Article(pool.family())) + " pool are /" +
                    std::to_string(bits - kBlockBitsMax) + " to /" + std::to_string(bits) +
                    "; write such a length, or leave spec.blockSize out to use /" +
                    std::to_string(bits - kDefaultBlockBits));
}

Expected<void> CheckResultLength(const Pool& pool) {
  if (!pool.result_length) return {};
  const int bits = AddressBits(pool.family());
  if (*pool.result_length >= 0 && *pool.result_length <= bits) return {};
  return Refuse("spec.prefixLength",
                std::to_string(*pool.result_length),
                "not a prefix length; write a number from 0 to " + std::to_string(bits) +
                    ", or leave spec.prefixLength out to use the length of spec.subnet");
}

Expected<void> CheckFamily(const Pool& pool, const std::string& field, const AddressRange& range) {
  if (range.first.family() == pool.family() && range.last.family() == pool.family()) return {};
  return Refuse(field,
                range.ToString(),
                "not " + std::string(ToString(pool.family())) + " like spec.subnet " + pool.subnet.ToString() +
                    "; the other family needs a pool of its own");
}

Expected<void> CheckInside(const Pool& pool, std::string_view list, std::span<const AddressRange> ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const AddressRange& range = ranges[i];
    if (auto checked = CheckFamily(pool, Element(list, i), range); !checked) return checked;
    if (range.last < range.first) {
      return Refuse(Element(list, i), range.ToString(), "ends before it starts; swap the two addresses");
    }
    if (!pool.subnet.Contains(range.first) || !pool.subnet.Contains(range.last)) {
      return Refuse(Element(list, i),
                    range.ToString(),
                    "not inside spec.subnet " + pool.subnet.ToString() +
                        "; shorten the range to the part inside, or leave the range out");
    }
  }
  return {};
}

// Overlapping ranges are more often a typing error than intended.
Expected<void> CheckNoOverlap(const std::vector<AddressRange>& ranges) {
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return ranges[i]; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto [earlier, later] = std::minmax(order[i - 1], order[i]);
    if (ranges[order[i - 1]].last < ranges[order[i]].first) continue;
    return Refuse(Element("spec.ranges", later),
                  ranges[later].ToString(),
                  "overlaps " + Element("spec.ranges", earlier) + " " + Quoted(ranges[earlier].ToString()) +
                      "; make them one range or shorten one");
  }
  return {};
}

Expected<void> CheckGateway(const Pool& pool) {
  if (!pool.gateway) return {};
  if (auto checked = CheckFamily(pool, "spec.gateway", {*pool.gateway, *pool.gateway}); !checked) return checked;
  // Several pools may be parts of one network: each has its own subnet, and all have the network's prefixLength and
  // gateway.
  const Prefix network = Prefix::Around(pool.subnet.First(), std::min(pool.ResultLength(), pool.subnet.length()));
  if (network.Contains(*pool.gateway)) return {};
  return Refuse("spec.gateway",
                pool.gateway->ToString(),
                "not inside " + network.ToString() + ", the network of spec.subnet " +
                    (pool.result_length ? "and spec.prefixLength" : "without spec.prefixLength") +
                    "; pods could not reach this gateway: correct one of these fields");
}

Expected<void> CheckRoutes(const Pool& pool) {
  for (std::size_t i = 0; i < pool.routes.size(); ++i) {
    const Route& route = pool.routes[i];
    if (!route.gateway || route.gateway->family() == route.destination.family()) continue;
    return Refuse(Element("spec.routes", i) + ".gw",
                  route.gateway->ToString(),
                  "not " + std::string(ToString(route.destination.family())) + " like dst " +
                      route.destination.ToString() + "; correct one of the two");
  }
  return {};
}

Expected<void> CheckSomethingIsLeft(const Pool& pool) {
  // Ignore withheld addresses: reservations may cover a whole pool, and the pool must stay Ready.
  Pool without_withheld = pool;
  without_withheld.withheld.clear();
  if (!Assignable(without_withheld).empty()) return {};
  return Refuse("spec.subnet",
                pool.subnet.ToString(),
                "spec.exclude, spec.gateway and the subnet's first and last address leave no address for pods; widen "
                "spec.ranges, shorten spec.exclude or set spec.allowEdgeAddresses");
}

}  // namespace

Expected<void> Validate(const Pool& pool) {
  if (auto checked = CheckBlockLength(pool); !checked) return checked;
  if (auto checked = CheckResultLength(pool); !checked) return checked;
  if (auto checked = CheckInside(pool, "spec.ranges", pool.ranges); !checked) return checked;
  if (auto checked = CheckNoOverlap(pool.ranges); !checked) return checked;
  if (auto checked = CheckInside(pool, "spec.exclude", pool.excludes); !checked) return checked;
  if (auto checked = CheckGateway(pool); !checked) return checked;
  if (auto checked = CheckRoutes(pool); !checked) return checked;
  return CheckSomethingIsLeft(pool);
}

}  // namespace berth::ipam
