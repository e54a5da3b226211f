// SPDX-License-Identifier: Apache-2.0
// The functions of OpenSSL that the client uses itself: OpenSSL's start, base64, and the name in a certificate.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::k8sclient {

// Sets up OpenSSL without its configuration file. Any thread may call StartOpenSsl, any number of times. The first use
// of OpenSSL in a process, even for a digest, decides whether OpenSSL reads the file. So programs that are started
// often call StartOpenSsl before anything else.
void StartOpenSsl();

// Base64 with padding (RFC 4648, section 4). DecodeBase64 ignores blanks and line breaks. Errors: kDecode.
[[nodiscard]] std::string EncodeBase64(std::string_view bytes);
[[nodiscard]] Expected<std::string> DecodeBase64(std::string_view text);

// The subject's common name of the first certificate in the PEM text; empty if the subject has no common name.
// Errors: kDecode (no certificate, or the name is not text).
[[nodiscard]] Expected<std::string> CommonName(std::string_view pem);

}  // namespace berth::k8sclient
