// SPDX-License-Identifier: Apache-2.0
// DerReader: one element of DER (X.690) after the other, without decoding what is in them.
//
// OpenSSL 3.0 decodes a certificate's public key with the certificate: half a millisecond of a process that is started
// for each CNI call.
#pragma once

#include <optional>

#include <openssl/asn1.h>

namespace berth::k8sclient {

class DerReader {
 public:
  // The bytes must outlive this.
  DerReader(const unsigned char* bytes, long size) : at_(bytes), end_(bytes + size) {}

  // The content of the element here, of whatever type, and goes behind it. Nothing if there is none.
  std::optional<DerReader> Next() {
    long size = 0;
    int tag = 0;
    int tag_class = 0;
    const unsigned char* content = at_;
    constexpr int kBroken = 0x80;
    if (at_ >= end_ || (ASN1_get_object(&content, &size, &tag, &tag_class, end_ - at_) & kBroken) != 0) return {};
    at_ = content + size;
    return DerReader(content, size);
  }

  [[nodiscard]] bool AtTag(int tag) const { return at_ < end_ && *at_ == tag; }
  [[nodiscard]] bool AtEnd() const { return at_ >= end_; }
  [[nodiscard]] const unsigned char* at() const { return at_; }
  [[nodiscard]] long size() const { return end_ - at_; }

 private:
  const unsigned char* at_;
  const unsigned char* end_;
};

}  // namespace berth::k8sclient
