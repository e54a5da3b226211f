// SPDX-License-Identifier: Apache-2.0
// IPPools: berth can validate each pool that ParsePool understands, and can refuse the subnet's first and last address.
#include "crds/pool.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "fuzz/target.h"
#include "ipam/pool.h"

namespace berth::fuzz {

void RunPool(std::string_view bytes) {
  const auto object = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return;
  const auto pool = crds::ParsePool(object);
  if (!pool || !ipam::Validate(*pool)) return;
  const ipam::AddressRange whole = ipam::AddressRange::Of(pool->subnet);
  for (const ipam::Address address : {whole.first, whole.last}) {
    BERTH_CHECK(pool->subnet.Contains(address));
    static_cast<void>(ipam::WhyNotAssignable(*pool, address).message.size());
  }
}

}  // namespace berth::fuzz
