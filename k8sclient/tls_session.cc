// SPDX-License-Identifier: Apache-2.0
// Sessions sealed and opened, by OpenSSL.
#include "k8sclient/tls_session.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "k8sclient/der_reader.h"

namespace berth::k8sclient {
namespace {

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
using CipherPtr = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

// Nonce, ciphertext, tag. Empty: it could not be done.
std::string Seal(const std::string& key, std::string_view text) {
  std::string sealed(kNonceBytes + text.size() + kTagBytes, '\0');
  unsigned char* const at = Bytes(sealed);
  const CipherPtr cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  const auto size = static_cast<int>(text.size());
  int done = 0;
  const bool is_sealed =
      RAND_bytes(at, kNonceBytes) == 1 &&
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), at) == 1 &&
      EVP_EncryptUpdate(cipher.get(), at + kNonceBytes, &done, Bytes(text), size) == 1 && done == size &&
      EVP_EncryptFinal_ex(cipher.get(), at + kNonceBytes + done, &done) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, at + kNonceBytes + text.size()) == 1;
  return is_sealed ? sealed : std::string();
}

// Nothing: it was sealed with another key, or is not what was sealed.
std::optional<std::string> Unseal(const std::string& key, const std::string& sealed) {
  if (sealed.size() < kNonceBytes + kTagBytes) return {};
  std::string text(sealed.size() - kNonceBytes - kTagBytes, '\0');
  std::string tag = sealed.substr(sealed.size() - kTagBytes);
  const CipherPtr cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  const auto size = static_cast<int>(text.size());
  int done = 0;
  int rest = 0;
  const bool is_ours = EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(sealed)) == 1 &&
                       EVP_DecryptUpdate(cipher.get(), Bytes(text), &done, Bytes(sealed) + kNonceBytes, size) == 1 &&
                       EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
                       EVP_DecryptFinal_ex(cipher.get(), Bytes(text) + done, &rest) == 1;
  ERR_clear_error();
  return is_ours ? std::optional(std::move(text)) : std::nullopt;
}

// The session as DER (OpenSSL's SSL_SESSION_ASN1), without the server's certificate: nobody asks for it again, and it
// would be decoded by every process. Empty: not as expected.
std::string EncodeSession(const SSL_SESSION* session) {
  unsigned char* bytes = nullptr;
  const int size = i2d_SSL_SESSION(session, &bytes);
  if (size <= 0) return {};
  std::string fields;
  std::optional<DerReader> reader = DerReader(bytes, size).Next();
  while (reader && !reader->AtEnd()) {
    constexpr int kPeerTag = 0xa3;
    const bool is_peer = reader->AtTag(kPeerTag);
    const unsigned char* const from = reader->at();
    if (!reader->Next()) reader.reset();
    if (reader && !is_peer) fields.append(from, reader->at());
  }
  OPENSSL_clear_free(bytes, static_cast<std::size_t>(size));
  if (!reader) return {};
  const int content = static_cast<int>(fields.size());
  std::string encoded(static_cast<std::size_t>(ASN1_object_size(1, content, V_ASN1_SEQUENCE)) - fields.size(), '\0');
  unsigned char* at = Bytes(encoded);
  ASN1_put_object(&at, 1, content, V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL);
  encoded += fields;
  OPENSSL_cleanse(fields.data(), fields.size());
  return encoded;
}

}  // namespace

std::string SessionKey(const CredentialSnapshot& credential, const TlsOptions& options) {
  std::string text = "berth TLS session 1";
  for (const std::string& part : {options.server,
                                  std::string(options.insecure_skip_verify ? "unverified" : "verified"),
                                  credential.certificate_authority_pem,
                                  credential.certificate_pem,
                                  credential.key_pem}) {
    text += '\n' + std::to_string(part.size()) + ':' + part;
  }
  std::string key(SHA256_DIGEST_LENGTH, '\0');
  SHA256(Bytes(text), text.size(), Bytes(key));
  OPENSSL_cleanse(text.data(), text.size());
  return key;
}

std::string SealSession(const std::string& key, const SSL_SESSION* session) {
  std::string encoded = EncodeSession(session);
  std::string sealed = encoded.empty() ? std::string() : Seal(key, encoded);
  OPENSSL_cleanse(encoded.data(), encoded.size());
  return sealed;
}

SessionPtr UnsealSession(const std::string& key, const std::string& sealed) {
  std::optional<std::string> text = Unseal(key, sealed);
  if (!text) return nullptr;
  const unsigned char* at = Bytes(*text);
  SessionPtr session(d2i_SSL_SESSION(nullptr, &at, static_cast<long>(text->size())));
  OPENSSL_cleanse(text->data(), text->size());
  ERR_clear_error();
  return session;
}

}  // namespace berth::k8sclient
