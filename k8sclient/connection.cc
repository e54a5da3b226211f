// SPDX-License-Identifier: Apache-2.0
// Connection: see the header.
#include "k8sclient/connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "k8sclient/dial.h"
#include "k8sclient/tunnel.h"
#include "k8sclient/waiter.h"

namespace berth::k8sclient {
namespace {

using ipam::Error;
using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using std::chrono::steady_clock;

// The API server closes an idle connection after 90 s and load balancers may earlier: not to meet such a close is the
// cheapest way not to lose a write to it.
constexpr std::chrono::seconds kIdleMax{50};
constexpr std::size_t kRefusalBytesMax = std::size_t{1} << 20;

bool IsDefaultPort(const ServerUrl& url) { return url.port == (url.scheme == "https" ? 443 : 80); }

// Whether nothing was executed for certain; else a write's outcome is open.
ErrorCode CodeFor(const Request& request, bool handed_over, ErrorCode certain) {
  return handed_over && IsWrite(request.method) ? ErrorCode::kUnknownOutcome : certain;
}

}  // namespace

// Takes an answer's body and decides what has become of the exchange.
class Connection::Answer {
 public:
  Answer(const Request& request, const BodySink* sink)
      : request_(request), sink_(sink), parser_([this](std::string_view piece) { return TakeBody(piece); }) {}
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  ResponseParser& parser() { return parser_; }
  [[nodiscard]] bool handed_over() const { return handed_over_; }

  [[nodiscard]] Response Complete() {
    Response response{.status = parser_.status(), .body = std::move(body_), .date = parser_.date()};
    if (parser_.retry_after()) response.retry_after = *parser_.retry_after();
    return response;
  }

  // After kStopped. The sink's own wish is an end in order.
  [[nodiscard]] Expected<Response> Stopped() const {
    if (handed_over_) return Response{.status = parser_.status(), .date = parser_.date()};
    return Fail(CodeFor(request_, true, ErrorCode::kInternal),
                "the answer is larger than " + std::to_string(request_.response_bytes_max) + " bytes");
  }

 private:
  bool TakeBody(std::string_view piece) {
    const bool refused = parser_.status() < 200 || parser_.status() >= 300;
    if (sink_ != nullptr && !refused) {
      handed_over_ = true;
      return (*sink_)(piece);
    }
    const std::size_t bytes_max =
        refused ? std::min(request_.response_bytes_max, kRefusalBytesMax) : request_.response_bytes_max;
    if (piece.size() > bytes_max - std::min(bytes_max, body_.size())) return false;
    body_ += piece;
    return true;
  }

  const Request& request_;
  const BodySink* sink_;
  ResponseParser parser_;
  bool handed_over_ = false;
  std::string body_;
};

ExchangeResult Connection::Exchange(const Request& request, const CredentialSnapshot& credential,
                                    const ExchangeLimits& limits, const BodySink* sink) {
  Waiter waiter(limits.deadline, limits.stop);
  const auto failed = [&](const Error& error, bool broke) {
    stream_.reset();
    const std::string what = std::string(ToString(request.method)) + " " + endpoint_.server.Authority() + request.path;
    return ExchangeResult{.response = std::unexpected(error.Within(what)), .broke = broke};
  };
  if (const Expected<void> ready = MakeReady(waiter); !ready) return failed(ready.error(), false);
  const Expected<void> sent = stream_->Write(Head(request, credential) + request.body, waiter);
  if (!sent && sent.error().code == ErrorCode::kTimeout) return failed(sent.error(), false);
  // A server that refuses without reading all of the body may have answered before it closed the connection.
  ExchangeResult result = ReadAnswer(request, limits, sink, waiter);
  if (result.response) return result;
  if (!sent) return failed(sent.error(), true);
  return failed(result.response.error(), result.broke);
}

ExchangeResult Connection::ReadAnswer(const Request& request, const ExchangeLimits& limits, const BodySink* sink,
                                      Waiter& waiter) {
  Answer answer(request, sink);
  ResponseParser::Outcome outcome = ResponseParser::Outcome::kMore;
  bool cut_off = false;
  while (outcome == ResponseParser::Outcome::kMore) {
    std::array<char, 16384> buffer;  // NOLINT: not worth zeroing
    const auto until = limits.idle_max ? steady_clock::now() + *limits.idle_max : steady_clock::time_point::max();
    // Reading looks at the time only where it has to wait; a server that never stops sending would not be left.
    const Expected<void> in_time = waiter.Check();
    const Expected<std::size_t> got = in_time ? stream_->Read(buffer, waiter, until) : std::unexpected(in_time.error());
    if (!got) {
      const bool broke = got.error().code == ErrorCode::kUnavailable && !answer.handed_over();
      Error error = got.error();
      error.code = CodeFor(request, true, error.code);
      return {.response = std::unexpected(std::move(error)), .broke = broke};
    }
    cut_off = *got == 0;
    outcome = cut_off ? answer.parser().End() : answer.parser().Feed({buffer.data(), *got});
  }
  switch (outcome) {
    case ResponseParser::Outcome::kComplete:
      used_at_ = steady_clock::now();
      if (!answer.parser().keep_alive()) stream_.reset();
      return {.response = answer.Complete()};
    case ResponseParser::Outcome::kStopped:
      stream_.reset();
      return {.response = answer.Stopped()};
    default:
      break;
  }
  const ErrorCode code = CodeFor(request, true, cut_off ? ErrorCode::kUnavailable : ErrorCode::kInternal);
  return {.response = Fail(code, std::string(answer.parser().problem())), .broke = cut_off && !answer.handed_over()};
}

Expected<void> Connection::MakeReady(Waiter& waiter) {
  if (const Expected<void> in_time = waiter.Check(); !in_time) return in_time;
  if (stream_ && (steady_clock::now() - used_at_ > kIdleMax || !stream_->IsQuiet())) stream_.reset();
  if (stream_) return {};
  const auto deadline = waiter.deadline();
  Expected<std::unique_ptr<ByteStream>> opened = Open(waiter);
  waiter.set_deadline(deadline);
  if (!opened) {
    // Not the caller's time that was over, but what we give one connection.
    if (opened.error().code == ErrorCode::kTimeout && waiter.Check()) opened.error().code = ErrorCode::kUnavailable;
    return std::unexpected(std::move(opened.error()));
  }
  stream_ = std::move(*opened);
  return {};
}

Expected<std::unique_ptr<ByteStream>> Connection::Open(Waiter& waiter) const {
  const bool offers_session = tls_ && tls_->HasSession();
  const auto deadline = waiter.deadline();
  bool in_handshake = false;
  Expected<std::unique_ptr<ByteStream>> opened = OpenOnce(waiter, in_handshake);
  if (opened || !in_handshake || !offers_session || opened.error().code == ErrorCode::kTimeout) return opened;
  // Maybe for the session. No request has been sent yet.
  tls_->ForgetSession();
  waiter.set_deadline(deadline);
  return OpenOnce(waiter, in_handshake);
}

Expected<std::unique_ptr<ByteStream>> Connection::OpenOnce(Waiter& waiter, bool& in_handshake) const {
  const auto limit = [&waiter, deadline = waiter.deadline()](std::chrono::milliseconds longest) {
    waiter.set_deadline(std::min(deadline, steady_clock::now() + longest));
  };
  limit(endpoint_.connect_max);
  const ServerUrl& first = endpoint_.proxy ? *endpoint_.proxy : endpoint_.server;
  const Expected<int> socket = Dial(first.host, first.port, waiter);
  if (!socket) return std::unexpected(socket.error());
  auto stream = std::make_unique<ByteStream>(*socket);
  Expected<void> done;
  if (endpoint_.proxy && endpoint_.proxy->scheme == "https")
    done = stream->StartTls(*tls_, endpoint_.proxy->host, waiter);
  if (done && endpoint_.proxy) done = OpenTunnel(*stream, *endpoint_.proxy, endpoint_.server, waiter);
  if (done && endpoint_.server.scheme == "https") {
    limit(endpoint_.handshake_max);
    done = stream->StartTls(*tls_, endpoint_.ServerName(), waiter);
    in_handshake = !done;
  }
  if (!done) return std::unexpected(done.error());
  return stream;
}

std::string Connection::Head(const Request& request, const CredentialSnapshot& credential) const {
  const ServerUrl& server = endpoint_.server;
  const std::string authority = server.Authority();
  std::string head(ToString(request.method));
  head += ' ';
  head += RequestTarget(server.path + request.path, request.query);
  head += " HTTP/1.1\r\nHost: ";
  head += IsDefaultPort(server) ? authority.substr(0, authority.rfind(':')) : authority;
  head += "\r\nUser-Agent: ";
  head += endpoint_.user_agent;
  head += "\r\nAccept: ";
  head += request.accept;
  head += "\r\n";
  for (const std::string& line : credential.headers) head += line + "\r\n";
  if (!request.body.empty()) {
    head += "Content-Type: ";
    head += request.content_type;
    head += "\r\n";
  }
  if (!request.body.empty() || IsWrite(request.method)) {
    head += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  return head + "\r\n";
}

}  // namespace berth::k8sclient
