// SPDX-License-Identifier: Apache-2.0
// Attachment keys by SHA-256.
#include "cni/attachment.h"

#include <array>

#include <openssl/sha.h>

namespace berth::cni {

namespace {

std::string FirstDigits(std::string_view text, std::size_t digits) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (std::size_t i = 0; hex.size() < digits; ++i) {
    hex += kHex[digest[i] >> 4U];
    hex += kHex[digest[i] & 0xFU];
  }
  return hex;
}

}  // namespace

std::string NetworkDigits(std::string_view network_name) {
  return FirstDigits(network_name, ipam::kAttachmentNetworkLength);
}

ipam::Attachment MakeAttachment(std::string_view network_name, std::string_view container_id,
                                std::string_view interface) {
  constexpr std::size_t kContainerDigits = 16;
  const std::string container = std::string(container_id) + '\0' + std::string(interface);
  return NetworkDigits(network_name) + '-' + FirstDigits(container, kContainerDigits);
}

}  // namespace berth::cni
