// SPDX-License-Identifier: Apache-2.0
// Credentials makes the headers, reads the files, and decides when to read them again.
#include "k8sclient/credentials.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "k8sclient/openssl.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {
namespace {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

constexpr std::chrono::seconds kRereadAfter{60};

void AddImpersonation(const ClientConfig& config, HeaderList& headers) {
  if (config.impersonate_user.empty()) return;
  headers.emplace_back("Impersonate-User", config.impersonate_user);
  if (!config.impersonate_uid.empty()) headers.emplace_back("Impersonate-Uid", config.impersonate_uid);
  for (const std::string& group : config.impersonate_groups) headers.emplace_back("Impersonate-Group", group);
  for (const auto& [key, values] : config.impersonate_extra) {
    // The server decodes the key, because header names allow fewer characters.
    for (const std::string& value : values) headers.emplace_back("Impersonate-Extra-" + PercentEncode(key), value);
  }
}

// The files in which distributions keep trusted authorities, in Go's order.
constexpr std::array kSystemAuthorities = {"/etc/ssl/certs/ca-certificates.crt",
                                           "/etc/pki/tls/certs/ca-bundle.crt",
                                           "/etc/ssl/ca-bundle.pem",
                                           "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                           "/etc/ssl/cert.pem"};

}  // namespace

Credentials::Credentials(ClientConfig config, ReadFile read_file, Clock& clock, LogLine log)
    : config_(std::move(config)), read_file_(std::move(read_file)), clock_(clock), log_(std::move(log)) {}

Expected<Credentials::Snapshot> Credentials::Current(const CallOptions& options) {
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
  if (!read) return snapshot_;  // the snapshot may still be valid; if not, the server answers 401
  if (snapshot_ && *snapshot_->tls == *read->tls) {
    if (snapshot_->headers == read->headers) return snapshot_;
    read->tls = snapshot_->tls;
  }
  snapshot_ = std::make_shared<const CredentialSnapshot>(*std::move(read));
  return snapshot_;
}

void Credentials::Reject(const Snapshot& rejected) {
  const Lock lock(mutex_);
  if (snapshot_ == rejected) rejected_ = true;
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
  Expected<std::string> text = ReadMaterial(material, read_file_);
  if (!text) return Fail(ErrorCode::kDecode, config_.source + ": " + what + ": " + text.error().message);
  if (text->empty() && !material.empty())
    return Fail(ErrorCode::kDecode, config_.source + ": " + what + ": \"" + material.path + "\" is empty");
  return text;
}

Expected<TlsTexts> Credentials::ReadTls() const {
  TlsTexts tls;
  // The kubelet keeps certificate and key in one file, and may replace the file at any moment: read the file only once.
  const bool is_one_file =
      !config_.client_key.path.empty() && config_.client_key.path == config_.client_certificate.path;
  for (const auto& [material, what, into] :
       {std::tuple(&config_.certificate_authority, "certificate-authority", &tls.certificate_authority_pem),
        std::tuple(&config_.client_certificate, "client-certificate", &tls.certificate_pem),
        std::tuple(&config_.client_key, "client-key", &tls.key_pem)}) {
    Expected<std::string> text =
        is_one_file && into == &tls.key_pem ? Expected<std::string>(tls.certificate_pem) : Text(*material, what);
    if (!text) return std::unexpected(std::move(text.error()));
    *into = *std::move(text);
  }
  if (!tls.certificate_authority_pem.empty() || config_.insecure_skip_tls_verify ||
      config_.server.starts_with("http://")) {
    return tls;
  }
  for (const char* path : kSystemAuthorities) {
    tls.certificate_authority_pem = read_file_(path).value_or(std::string());
    if (!tls.certificate_authority_pem.empty()) return tls;
  }
  return Fail(ErrorCode::kDecode,
              config_.source + ": no certificate-authority is given, and this system has no list of authorities",
              "set certificate-authority-data in the kubeconfig");
}

Expected<CredentialSnapshot> Credentials::Read(const CallOptions& options) {
  Expected<TlsTexts> tls = ReadTls();
  if (!tls) return std::unexpected(std::move(tls.error()));
  Expected<std::string> token = Text(config_.token, "token");
  if (token) token = Trimmed(*token);
  HeaderList headers;
  if (token && token->empty() && !config_.username.empty()) {
    headers.emplace_back("Authorization", "Basic " + EncodeBase64(config_.username + ":" + config_.password));
  } else if (token && token->empty() && config_.exec) {
    token = ReadExec(*config_.exec, options, *tls);
  }
  if (!token) return std::unexpected(std::move(token.error()));
  if (!token->empty()) headers.emplace_back("Authorization", "Bearer " + *token);
  AddImpersonation(config_, headers);
  CredentialSnapshot snapshot{.tls = std::make_shared<const TlsTexts>(*std::move(tls)), .headers = {}};
  for (const auto& [name, value] : headers) {
    // With a line break in a value, a file or a kubeconfig could add headers of its own.
    if (std::ranges::any_of(value, [](unsigned char c) { return std::iscntrl(c) != 0; })) {
      return Fail(ErrorCode::kDecode, "a control character in the value for the header " + name);
    }
    snapshot.headers.push_back(name + ": " + value);
  }
  return snapshot;
}

Expected<std::string> Credentials::ReadExec(const ExecPlugin& plugin, const CallOptions& options, TlsTexts& tls) {
  if (!exec_ || HasExpired(*exec_)) {
    // The plugin gets only the authorities that the kubeconfig names, as in client-go. The system's authorities are
    // longer than Linux allows in an environment variable.
    const std::string configured_pem = config_.certificate_authority.empty() ? "" : tls.certificate_authority_pem;
    Expected<ExecCredential> run = RunExecPlugin(plugin, config_, configured_pem, options, log_);
    if (!run) return std::unexpected(std::move(run.error()));
    exec_ = std::move(*run);
  }
  if (!exec_->certificate_pem.empty()) {
    tls.certificate_pem = exec_->certificate_pem;
    tls.key_pem = exec_->key_pem;
  }
  return exec_->token;
}

}  // namespace berth::k8sclient
