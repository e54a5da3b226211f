// SPDX-License-Identifier: Apache-2.0
// What berth wants to know about an X.509 certificate in PEM text.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::k8sclient {

// The common name of the subject of the first certificate in the text; empty if the subject has none.
// Errors: kDecode.
[[nodiscard]] Expected<std::string> CommonName(std::string_view pem);

}  // namespace berth::k8sclient
