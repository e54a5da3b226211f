// SPDX-License-Identifier: Apache-2.0
// Base64 with padding (RFC 4648, section 4). Kubeconfigs contain certificates in base64.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::k8sclient {

[[nodiscard]] std::string EncodeBase64(std::string_view bytes);

// Ignores blanks and line breaks. Errors: kDecode.
[[nodiscard]] Expected<std::string> DecodeBase64(std::string_view text);

}  // namespace berth::k8sclient
