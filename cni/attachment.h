// SPDX-License-Identifier: Apache-2.0
// Attachment: identifies one interface of one container in one network (docs/state.md).
//
// An attachment consists of hashes, because container IDs may have any length, but an entry must stay short.
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

// True if `text` has the form of an attachment.
[[nodiscard]] bool IsAttachment(std::string_view text);

}  // namespace berth::cni
