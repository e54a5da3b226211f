// SPDX-License-Identifier: Apache-2.0
// CNI_ARGS, and the addresses that they request.
#include "cni/args.h"
#include "cni/config.h"
#include "fuzz/target.h"

namespace berth::fuzz {

void RunCniArgs(std::string_view bytes) {
  const auto args = cni::ParseArgs(bytes);
  if (args) static_cast<void>(cni::RequestedAddresses({}, *args).has_value());
}

}  // namespace berth::fuzz
