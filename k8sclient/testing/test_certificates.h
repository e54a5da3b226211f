// SPDX-License-Identifier: Apache-2.0
// Makes valid and invalid certificates for tests of TLS.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace berth::k8sclient::testing {

struct Identity {
  std::string certificate_pem;
  std::string key_pem;
};

struct CertificateOptions {
  std::string common_name = "test";
  std::vector<std::string> names = {"IP:127.0.0.1", "DNS:localhost"};  // subject alternative names
  std::chrono::seconds valid_from_now = std::chrono::hours(1);         // negative: expired
};

// A certificate authority with an EC key.
class Authority {
 public:
  explicit Authority(const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  [[nodiscard]] const std::string& certificate_pem() const;
  [[nodiscard]] Identity Issue(const CertificateOptions& options) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace berth::k8sclient::testing
