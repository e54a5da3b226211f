// SPDX-License-Identifier: Apache-2.0
// Percent-encoding (RFC 3986, section 2.1), and the URL of a request.
#pragma once

#include <string>
#include <string_view>

#include "k8sclient/api.h"

namespace berth::k8sclient {

// Everything but letters, digits and "-._~" becomes %XX.
[[nodiscard]] std::string PercentEncode(std::string_view text);

// server, path and encoded query in one. server has no slash at its end, path begins with one.
[[nodiscard]] std::string Url(std::string_view server, const Request& request);

}  // namespace berth::k8sclient
