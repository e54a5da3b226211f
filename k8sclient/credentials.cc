// SPDX-License-Identifier: Apache-2.0
// Credentials: the headers, the files, and when they are read again.
#include "k8sclient/credentials.h"

#include <array>
#include <utility>

#include "base/mutex.h"
#include "k8sclient/openssl.h"

namespace berth::k8sclient {
namespace {

constexpr std::chrono::seconds kRereadAfter{60};

// Adds "name: value". Refuses control characters: with a line break in a value, a file or a kubeconfig could add
// headers of its own.
Expected<void> AddHeader(std::vector<std::string>& headers, const std::string& name, const std::string& value) {
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return Fail(ErrorCode::kDecode, "a control character in the value for the header " + name);
    }
  }
  headers.push_back(name + ": " + value);
  return {};
}

// Escapes the part of the header name that comes from the key, as client-go does: header names allow fewer characters.
std::string EscapedHeaderKey(const std::string& key) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || c == '!' || c == '#' || c == '$' || c == '&' || c == '\'' ||
                       c == '*' || c == '+' || c == '^' || c == '`' || c == '|';
    if (plain) {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return escaped;
}

std::vector<std::pair<std::string, std::string>> Impersonation(const ClientConfig& config) {
  std::vector<std::pair<std::string, std::string>> headers;
  if (config.impersonate_user.empty()) return headers;
  headers.emplace_back("Impersonate-User", config.impersonate_user);
  if (!config.impersonate_uid.empty()) headers.emplace_back("Impersonate-Uid", config.impersonate_uid);
  for (const std::string& group : config.impersonate_groups) headers.emplace_back("Impersonate-Group", group);
  for (const auto& [key, values] : config.impersonate_extra) {
    for (const std::string& value : values) headers.emplace_back("Impersonate-Extra-" + EscapedHeaderKey(key), value);
  }
  return headers;
}

// The files in which distributions keep trusted authorities, in Go's order.
constexpr std::array kSystemAuthorities = {"/etc/ssl/certs/ca-certificates.crt",
                                           "/etc/pki/tls/certs/ca-bundle.crt",
                                           "/etc/ssl/ca-bundle.pem",
                                           "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                           "/etc/ssl/cert.pem"};

bool SameTls(const CredentialSnapshot& a, const CredentialSnapshot& b) {
  return a.certificate_authority_pem == b.certificate_authority_pem && a.certificate_pem == b.certificate_pem &&
         a.key_pem == b.key_pem;
}

}  // namespace

Credentials::Credentials(ClientConfig config, ReadFile read_file, Clock& clock, LogLine log)
    : config_(std::move(config)), read_file_(std::move(read_file)), clock_(clock), log_(std::move(log)) {}

Expected<std::shared_ptr<const CredentialSnapshot>> Credentials::Current(const CallOptions& options) {
  Lock lock(mutex_);
  if (!changed_.wait_until(
          lock.native(), options.stop, options.deadline, [this]() BERTH_REQUIRES(mutex_) { return !reading_; })) {
    return Fail(ErrorCode::kTimeout, config_.source + ": the time limit passed while credentials were being read");
  }
  if (IsFresh()) return snapshot_;
  reading_ = true;
  if (rejected_) exec_.reset();
  lock.unlock();
  Expected<CredentialSnapshot> read = Read(options);
  lock.lock();
  reading_ = false;
  changed_.notify_all();
  if (!read && (!snapshot_ || config_.exec)) return std::unexpected(std::move(read.error()));
  read_at_ = clock_.Now();
  rejected_ = false;
  if (!read) return snapshot_;  // it may still be valid; if not, the server answers 401
  const bool same_tls = snapshot_ && SameTls(*snapshot_, *read);
  if (same_tls && snapshot_->headers == read->headers) return snapshot_;
  read->serial = (snapshot_ ? snapshot_->serial : 0) + 1;
  read->tls_serial = same_tls ? snapshot_->tls_serial : read->serial;
  snapshot_ = std::make_shared<const CredentialSnapshot>(std::move(*read));
  return snapshot_;
}

void Credentials::Reject(const CredentialSnapshot& rejected) {
  const Lock lock(mutex_);
  if (snapshot_ && snapshot_->serial == rejected.serial) rejected_ = true;
}

bool Credentials::IsFresh() const {
  if (!snapshot_ || rejected_ || clock_.Now() - read_at_ >= kRereadAfter) return false;
  return !exec_ || !HasExpired(*exec_);
}

bool Credentials::HasExpired(const ExecCredential& credential) const {
  // In milliseconds, because a clock's nanoseconds overflow in the year 2262.
  return credential.expires && std::chrono::floor<std::chrono::milliseconds>(clock_.WallNow()) >= *credential.expires;
}

Expected<std::string> Credentials::Text(const Material& material, const char* what) const {
  if (!material.text.empty() || material.path.empty()) return material.text;
  Expected<std::string> text = read_file_(material.path);
  if (!text) return Fail(ErrorCode::kDecode, config_.source + ": " + what + ": " + text.error().message);
  if (text->empty())
    return Fail(ErrorCode::kDecode, config_.source + ": " + what + ": \"" + material.path + "\" is empty");
  return text;
}

Expected<std::string> Credentials::Authorities() const {
  if (!config_.certificate_authority.empty()) return Text(config_.certificate_authority, "certificate-authority");
  if (config_.insecure_skip_tls_verify || config_.server.starts_with("http://")) return std::string();
  for (const char* path : kSystemAuthorities) {
    Expected<std::string> text = read_file_(path);
    if (text && !text->empty()) return text;
  }
  return Fail(ErrorCode::kDecode,
              config_.source + ": no certificate-authority is given, and this system has no list of authorities",
              "set certificate-authority-data in the kubeconfig");
}

Expected<CredentialSnapshot> Credentials::Read(const CallOptions& options) {
  CredentialSnapshot snapshot;
  Expected<std::string> authority = Authorities();
  if (!authority) return std::unexpected(std::move(authority.error()));
  snapshot.certificate_authority_pem = std::move(*authority);
  Expected<std::string> certificate = Text(config_.client_certificate, "client-certificate");
  if (!certificate) return std::unexpected(std::move(certificate.error()));
  snapshot.certificate_pem = std::move(*certificate);
  // The kubelet keeps certificate and key in one file.
  Expected<std::string> key =
      !config_.client_key.path.empty() && config_.client_key.path == config_.client_certificate.path
          ? snapshot.certificate_pem
          : Text(config_.client_key, "client-key");
  if (!key) return std::unexpected(std::move(key.error()));
  snapshot.key_pem = std::move(*key);

  Expected<void> added;
  const Expected<std::string> token = Text(config_.token, "token");
  if (!token) return std::unexpected(token.error());
  if (!Trimmed(*token).empty()) {
    added = AddHeader(snapshot.headers, "Authorization", "Bearer " + Trimmed(*token));
  } else if (!config_.username.empty()) {
    added = AddHeader(
        snapshot.headers, "Authorization", "Basic " + EncodeBase64(config_.username + ":" + config_.password));
  } else if (config_.exec) {
    added = ReadExec(*config_.exec, options, snapshot);
  }
  for (const auto& [name, value] : Impersonation(config_)) {
    if (added) added = AddHeader(snapshot.headers, name, value);
  }
  if (!added) return std::unexpected(added.error());
  return snapshot;
}

Expected<void> Credentials::ReadExec(const ExecPlugin& plugin, const CallOptions& options, CredentialSnapshot& into) {
  if (!exec_ || HasExpired(*exec_)) {
    Expected<ExecCredential> run = RunExecPlugin(plugin, config_, into.certificate_authority_pem, options, log_);
    if (!run) return std::unexpected(std::move(run.error()));
    exec_ = std::move(*run);
  }
  if (!exec_->certificate_pem.empty()) {
    into.certificate_pem = exec_->certificate_pem;
    into.key_pem = exec_->key_pem;
  }
  if (exec_->token.empty()) return {};
  return AddHeader(into.headers, "Authorization", "Bearer " + exec_->token);
}

}  // namespace berth::k8sclient
