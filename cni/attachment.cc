// SPDX-License-Identifier: Apache-2.0
// Makes attachments with SHA-256.
#include "cni/attachment.h"

#include <algorithm>
#include <array>

#include <openssl/sha.h>

namespace berth::cni {

namespace {

constexpr std::size_t kContainerDigits = 16;
constexpr std::string_view kHex = "0123456789abcdef";

std::string FirstDigits(std::string_view text, std::size_t digits) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
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
  const std::string container = std::string(container_id) + '\0' + std::string(interface);
  return NetworkDigits(network_name) + '-' + FirstDigits(container, kContainerDigits);
}

bool IsAttachment(std::string_view text) {
  const auto is_hex = [](char c) { return kHex.contains(c); };
  constexpr std::size_t kDash = ipam::kAttachmentNetworkLength;
  return text.size() == kDash + 1 + kContainerDigits && text[kDash] == '-' &&
         std::ranges::all_of(text.substr(0, kDash), is_hex) && std::ranges::all_of(text.substr(kDash + 1), is_hex);
}

}  // namespace berth::cni
