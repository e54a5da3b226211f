// SPDX-License-Identifier: Apache-2.0
// CommonName: the subject's name in an X.509 certificate.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::k8sclient {

// The subject's common name of the first certificate in the PEM text; empty if the subject has no common name.
// Errors: kDecode (no certificate, or the name is not text).
[[nodiscard]] Expected<std::string> CommonName(std::string_view pem);

}  // namespace berth::k8sclient
