// SPDX-License-Identifier: Apache-2.0
// Makes the TLS context with Asio and OpenSSL.
#include "http/tls.h"

#include <string>
#include <sys/stat.h>

#include <spdlog/spdlog.h>

// NOLINTBEGIN(bugprone-unused-return-value): what Asio returns is also in the argument `error`
namespace berth::http {

namespace {

namespace ssl = boost::asio::ssl;

Expected<std::shared_ptr<ssl::context>> LoadContext(const HttpTlsFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // In a resumed session, the server would not check the client's certificate again.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
  boost::system::error_code error;
  const auto fail = [&error](const std::string& file) {
    return Fail(ErrorCode::kInvalid, Quoted(file) + " cannot be used for TLS: " + error.message());
  };
  context->use_certificate_chain_file(files.certificate, error);
  if (error) return fail(files.certificate);
  context->use_private_key_file(files.key, ssl::context::pem, error);
  if (error) return fail(files.key);
  if (files.client_ca.empty()) return context;
  context->load_verify_file(files.client_ca, error);
  if (!error) context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  if (error) return fail(files.client_ca);
  return context;
}

}  // namespace

Expected<void> Tls::Load() {
  stamps_ = StampsNow();
  auto loaded = LoadContext(files_);
  failure_ = loaded ? "" : loaded.error().message;
  if (!loaded) return std::unexpected(std::move(loaded.error()));
  context_ = *std::move(loaded);
  return {};
}

const std::shared_ptr<ssl::context>& Tls::Current() {
  // After a failure, load again even if the files have not changed: the process may have had no free descriptors.
  if (StampsNow() == stamps_ && failure_.empty()) return context_;
  const std::string failure = failure_;
  if (const auto loaded = Load(); loaded) {
    spdlog::info("the server uses new certificate files file={}", files_.certificate);
  } else if (failure_ != failure) {
    spdlog::warn("the server cannot use its new certificate files, so it keeps the old ones err={}", Quoted(failure_));
  }
  return context_;
}

Tls::Stamps Tls::StampsNow() const {
  const auto stamp_of = [](const std::string& path) {
    struct stat found{};
    if (stat(path.c_str(), &found) != 0) found = {};
    return std::tuple(found.st_ino, found.st_mtim.tv_sec, found.st_mtim.tv_nsec, found.st_size);
  };
  return {stamp_of(files_.certificate), stamp_of(files_.key), stamp_of(files_.client_ca)};
}

}  // namespace berth::http
// NOLINTEND(bugprone-unused-return-value)
