// SPDX-License-Identifier: Apache-2.0
// The time in the header Date of an HTTP answer.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace berth::k8sclient {

// Reads "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate of RFC 9110), the only form that servers send today. The weekday
// is not compared with the date. Empty: another form, no such date, or a year outside 1970 to 2199.
[[nodiscard]] std::optional<std::chrono::sys_seconds> ParseHttpDate(std::string_view text);

}  // namespace berth::k8sclient
