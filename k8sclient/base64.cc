// SPDX-License-Identifier: Apache-2.0
// Base64, with OpenSSL.
#include "k8sclient/base64.h"

#include <openssl/evp.h>

namespace berth::k8sclient {

std::string EncodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a zero byte
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Expected<std::string> DecodeBase64(std::string_view text) {
  std::string packed;
  packed.reserve(text.size());
  for (const char c : text) {
    if (c != '\n' && c != '\r' && c != ' ' && c != '\t') packed += c;
  }
  if (packed.empty()) return packed;
  std::size_t padding = 0;
  while (padding < 2 && padding < packed.size() && packed[packed.size() - 1 - padding] == '=') ++padding;
  // OpenSSL accepts "=" anywhere and counts padding as data.
  if (packed.size() % 4 != 0 || packed.find('=') < packed.size() - padding) {
    return Fail(ErrorCode::kDecode, "not base64");
  }
  std::string bytes(packed.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(packed.data()),
                                   static_cast<int>(packed.size()));
  if (size < 0) return Fail(ErrorCode::kDecode, "not base64");
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

}  // namespace berth::k8sclient
