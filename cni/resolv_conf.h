// SPDX-License-Identifier: Apache-2.0
// ParseResolvConf: the `dns` part of a result from the text of a resolv.conf(5), like the option resolvConf of
// host-local: every nameserver, the last domain, all search domains and options. Comments begin with "#" or ";".
#pragma once

#include <string_view>

#include "ipam/pool.h"

namespace berth::cni {

// Ignores lines with unknown keywords, like the resolver.
[[nodiscard]] ipam::Dns ParseResolvConf(std::string_view text);

}  // namespace berth::cni
