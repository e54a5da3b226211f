// SPDX-License-Identifier: Apache-2.0
// ParseResolvConf: the `dns` part of a result from the text of a resolv.conf(5), as host-local's option resolvConf
// does: every nameserver, the last domain, all search domains and options; "#" and ";" begin comments.
#pragma once

#include <string_view>

#include "ipam/pool.h"

namespace berth::cni {

// Lines it does not know are skipped, as the resolver does.
[[nodiscard]] ipam::Dns ParseResolvConf(std::string_view text);

}  // namespace berth::cni
