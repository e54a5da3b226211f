// SPDX-License-Identifier: Apache-2.0
// Credentials: what a ClientConfig refers to, read when it is needed and again when it may have changed.
//
// Files (token, certificates, CA bundle) are read again every minute: projected tokens and kubelet certificates are
// replaced while a program runs. A plugin runs again when its credential has expired. A 401 asks for both at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"
#include "k8sclient/clock.h"
#include "k8sclient/exec_plugin.h"
#include "k8sclient/log_line.h"

namespace berth::k8sclient {

// What a connection and its requests use; a value that does not change.
struct CredentialSnapshot {
  std::string certificate_authority_pem;  // the configuration's, or all of the system's; empty if nothing is verified
  std::string certificate_pem;
  std::string key_pem;
  std::vector<std::string> headers;  // "Authorization: Bearer ...", "Impersonate-User: ..."
  std::uint64_t serial = 0;          // grows with every change
  std::uint64_t tls_serial = 0;      // grows with every change of what a TLS connection was made with
};

class Credentials {
 public:
  // clock must outlive this.
  Credentials(ClientConfig config, ReadFile read_file, Clock& clock, LogLine log = LogToStderr);

  // Any thread may call; reads files or runs the plugin if it is time to, at most one caller at once.
  // What was read before stays in use if reading it again fails.
  // Errors: kDecode (a file cannot be read, or holds what cannot be sent), kUnauthenticated (the plugin), kTimeout.
  [[nodiscard]] Expected<std::shared_ptr<const CredentialSnapshot>> Current(const CallOptions& options);

  // The server answered 401 to this one: read all again, unless that has happened since.
  void Reject(const CredentialSnapshot& rejected);

  [[nodiscard]] const ClientConfig& config() const { return config_; }

 private:
  [[nodiscard]] bool IsFresh() const BERTH_REQUIRES(mutex_);
  [[nodiscard]] Expected<CredentialSnapshot> Read(const CallOptions& options);
  [[nodiscard]] Expected<void> ReadExec(const ExecPlugin& plugin, const CallOptions& options, CredentialSnapshot& into);
  [[nodiscard]] Expected<std::string> Authorities() const;
  [[nodiscard]] Expected<std::string> Text(const Material& material, const char* what) const;

  const ClientConfig config_;
  const ReadFile read_file_;
  Clock& clock_;
  const LogLine log_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool reading_ BERTH_GUARDED_BY(mutex_) = false;  // a caller reads, with the mutex released
  std::shared_ptr<const CredentialSnapshot> snapshot_ BERTH_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point read_at_ BERTH_GUARDED_BY(mutex_);
  bool rejected_ BERTH_GUARDED_BY(mutex_) = false;

  // Touched only by the caller that set reading_.
  std::optional<ExecCredential> exec_;
};

}  // namespace berth::k8sclient
