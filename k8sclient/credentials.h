// SPDX-License-Identifier: Apache-2.0
// Credentials: reads the files and runs the plugin that a ClientConfig names, again and again.
//
// Credentials reads the files (token, certificates, CA bundle) again every minute, because other programs replace
// projected tokens and kubelet certificates while this program runs. A plugin runs again when its credential has
// expired. After Reject, the next call of Current reads the files and runs the plugin.
#pragma once

#include <condition_variable>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"
#include "k8sclient/clock.h"
#include "k8sclient/exec_plugin.h"

namespace berth::k8sclient {

// The PEM texts for the TLS handshake of a connection.
struct TlsTexts {
  std::string certificate_authority_pem = {};  // the configuration's or the system's; empty: no verification
  std::string certificate_pem = {};
  std::string key_pem = {};
  friend bool operator==(const TlsTexts&, const TlsTexts&) = default;
};

// A snapshot does not change.
struct CredentialSnapshot {
  std::shared_ptr<const TlsTexts> tls;  // the same object until a text changes
  std::vector<std::string> headers;     // "Authorization: Bearer ...", "Impersonate-User: ..."
};

class Credentials {
 public:
  using Snapshot = std::shared_ptr<const CredentialSnapshot>;

  // clock must outlive this.
  Credentials(ClientConfig config, ReadFile read_file, Clock& clock, LogLine log = LogToStderr);

  // Any thread may call. If the snapshot is outdated, one caller reads the files and, if needed, runs the plugin; the
  // other callers wait. Returns the same snapshot until a text or header has changed. If reading fails and the
  // configuration has no plugin, Current returns the previous snapshot, if there is one.
  // Errors: kDecode (a file cannot be read, or a header cannot contain a value), kUnauthenticated (the plugin failed),
  // kTimeout.
  [[nodiscard]] Expected<Snapshot> Current(const CallOptions& options);

  // The server answered 401 to `rejected`, or its certificates cannot be used: the next Current reads everything again,
  // unless the snapshot has changed.
  void Reject(const Snapshot& rejected);

  [[nodiscard]] const ClientConfig& config() const { return config_; }

 private:
  [[nodiscard]] bool IsFresh() const BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool HasExpired(const ExecCredential& credential) const;
  [[nodiscard]] Expected<CredentialSnapshot> Read(const CallOptions& options);
  [[nodiscard]] Expected<TlsTexts> ReadTls() const;
  // Runs the plugin if its last credential is missing or has expired. Returns the credential's token, and puts its
  // certificate and key, if any, into `tls`.
  [[nodiscard]] Expected<std::string> ReadExec(const ExecPlugin& plugin, const CallOptions& options, TlsTexts& tls);
  [[nodiscard]] Expected<std::string> Text(const Material& material, const char* what) const;

  const ClientConfig config_;
  const ReadFile read_file_;
  Clock& clock_;
  const LogLine log_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool reading_ BERTH_GUARDED_BY(mutex_) = false;  // a caller reads without the mutex
  Snapshot snapshot_ BERTH_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point read_at_ BERTH_GUARDED_BY(mutex_);
  bool rejected_ BERTH_GUARDED_BY(mutex_) = false;

  // Only the caller that has set reading_ uses exec_.
  std::optional<ExecCredential> exec_;
};

}  // namespace berth::k8sclient
