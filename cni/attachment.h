// SPDX-License-Identifier: Apache-2.0
// Attachment: the key of one interface of one container in one network (docs/state.md).
//
// Hashes, because container IDs have no maximum length and one string per address must stay short.
#pragma once

#include <string>
#include <string_view>

#include "ipam/entry.h"

namespace berth::cni {

// The first 12 hexadecimal digits of SHA-256(network name).
[[nodiscard]] std::string NetworkDigits(std::string_view network_name);

// NetworkDigits, "-", and the first 16 digits of SHA-256(container ID, NUL, interface name).
[[nodiscard]] ipam::Attachment MakeAttachment(std::string_view network_name, std::string_view container_id,
                                              std::string_view interface);

// Whether it has the form of one.
[[nodiscard]] bool IsAttachment(std::string_view text);

}  // namespace berth::cni
