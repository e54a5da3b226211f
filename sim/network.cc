// SPDX-License-Identifier: Apache-2.0
// How a request travels to an API server, and how the answer comes back.
#include "sim/network.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"

namespace berth::sim {

using k8sclient::IsWrite;
using k8sclient::Method;
using k8sclient::Request;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// Pages after the first do not count as requests: the simulated API server cuts lists into pages of few objects, a real
// one into pages of hundreds.
bool IsNextPage(const Request& request) {
  return std::ranges::any_of(request.query, [](const auto& one) { return one.first == "continue"; });
}

// Travel times of a request and of an answer. Most are a few milliseconds, some up to a second.
microseconds There() { return microseconds(200 + (Below(50) == 0 ? Below(200'000) : Below(3'000))); }
microseconds Back() { return microseconds(200 + (Below(30) == 0 ? Below(800'000) : Below(2'000))); }
// How late a request is executed.
milliseconds HowLate() { return milliseconds(Below(4'000)); }

// Errors that an API server may answer to any request. Only after a 500 or 504 the request may have been executed.
struct Denial {
  int status;
  const char* message;
  bool may_be_executed = false;
};
constexpr std::array kDenials{
    Denial{401, "Unauthorized"},
    Denial{403, "ipblocks is forbidden: User \"berth\" cannot do that"},
    Denial{403, "admission webhook \"policy.example.org\" denied the request: not now"},
    Denial{429, "the server has received too many requests and has asked us to try again later"},
    Denial{500, "etcdserver: leader changed", true},
    Denial{504, "Timeout: request did not complete within requested timeout", true},
};

k8sclient::Response Deny(const Denial& denial) {
  const nlohmann::json status = {{"kind", "Status"},
                                 {"apiVersion", "v1"},
                                 {"status", "Failure"},
                                 {"message", denial.message},
                                 {"code", denial.status}};
  return {.status = denial.status, .body = status.dump()};
}

}  // namespace

struct Network::Exchange {
  Request request;
  std::string who;         // process that sent the request
  std::string user;        // user whose credentials the request has
  std::uint64_t cuts = 0;  // value of cuts_ when the request was sent
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Answer> answer;

  void Finish(Answer with) {
    const std::scoped_lock lock(mutex);
    if (!answer) answer = std::move(with);
    answered.notify_all();
  }
};

Network::Fate Network::Choose() const {
  if (weather_.is_away) return Fate::kRefused;
  const std::uint64_t dice = Below(1000);
  if (dice < weather_.refused) return Fate::kRefused;
  if (dice < weather_.refused + weather_.lost) return Fate::kLost;
  if (dice < weather_.refused + weather_.lost + weather_.late) return Fate::kLate;
  if (dice < weather_.refused + weather_.lost + weather_.late + weather_.denied) return Fate::kDenied;
  return Fate::kAnswered;
}

void Network::Set(const Weather& weather) {
  weather_ = weather;
  for (ApiServer* const server : servers_) server->Lag(weather.lag);
}

void Network::RestartOne(Nanos away) {
  ApiServer& server = AnyServer();
  story_.Tell("an API server is restarted");
  away_ = &server;
  server.Restart();
  std::this_thread::sleep_for(away);
  server.Restart();
  away_ = nullptr;
}

ApiServer& Network::AnyServer() { return *servers_[Below(servers_.size())]; }

ErrorCode Network::NoAnswer(const Request& request) const {
  return IsWrite(request.method) && !lies_.lost_is_refused ? ErrorCode::kUnknownOutcome : ErrorCode::kUnavailable;
}

void Network::RefuseWritesOf(std::string block, int status, const std::string& message) {
  refused_block_ = std::move(block);
  refusal_ = Deny({.status = status, .message = message.c_str()});
}

bool Network::IsRefused(const Request& request) const {
  if (refused_block_.empty() || !IsWrite(request.method)) return false;
  const std::string blocks(crds::kBlocksPath);
  if (lies_.refuses_all) return request.path.starts_with(blocks);
  if (request.method != Method::kPost) return request.path == blocks + "/" + refused_block_;
  return request.path == blocks && nlohmann::json::parse(request.body)["metadata"]["name"] == refused_block_;
}

Network::Answer Network::Execute(const Exchange& exchange) {
  Request request = exchange.request;
  if (exchange.cuts != cuts_) return Fail(NoAnswer(request), "the connection was cut");
  ApiServer& server = AnyServer();
  if (&server == away_) return Fail(ErrorCode::kUnavailable, "that API server is away");
  if (IsRefused(request)) return refusal_;
  if (lies_.swallows && lies_.swallows(request)) {
    request.method = Method::kGet;
    request.body.clear();
  }
  if (lies_.rewrites) lies_.rewrites(request);
  senders_[IdOf(Self())] = exchange.user;
  Answer answer = server.Call(request, {});
  senders_.erase(IdOf(Self()));
  return answer;
}

std::string Network::Sender() const {
  const auto found = InFiber() ? senders_.find(IdOf(Self())) : senders_.end();
  return found == senders_.end() ? std::string() : found->second;
}

void Network::Travel(const std::shared_ptr<Exchange>& exchange, Fate fate, bool is_slow) {
  const Request& request = exchange->request;
  const bool is_answer_slow = is_slow && Below(2) == 0;
  std::this_thread::sleep_for(is_slow && !is_answer_slow ? HowLate() : There());
  if (steering_.request) fate = steering_.request(exchange->who, request);
  switch (fate) {
    case Fate::kRefused:
      return exchange->Finish(Fail(ErrorCode::kUnavailable, "the API server is away"));
    case Fate::kLost:
      static_cast<void>(Execute(*exchange));
      std::this_thread::sleep_for(Back());
      return exchange->Finish(Fail(NoAnswer(request), "the answer was lost"));
    case Fate::kLate:
      exchange->Finish(Fail(NoAnswer(request), "the connection was cut"));
      std::this_thread::sleep_for(HowLate());
      static_cast<void>(Execute(*exchange));
      return;
    case Fate::kDenied: {
      const Denial& denial = kDenials.at(Below(kDenials.size()));
      if (denial.may_be_executed && Below(2) == 0) static_cast<void>(Execute(*exchange));
      return exchange->Finish(Deny(denial));
    }
    case Fate::kAnswered: {
      Answer answer = Execute(*exchange);
      std::this_thread::sleep_for(is_answer_slow ? HowLate() : Back());
      if (exchange->cuts != cuts_) answer = Fail(NoAnswer(request), "the connection was cut");
      return exchange->Finish(std::move(answer));
    }
  }
}

Network::Answer Network::CallAs(const std::string& user, const Request& request,
                                const k8sclient::CallOptions& options) {
  requests_ += IsNextPage(request) ? 0 : 1;
  const Fate fate = Choose();
  if (fate != Fate::kAnswered) ++faults_;
  const auto exchange = std::make_shared<Exchange>();
  exchange->request = request;
  exchange->who = CurrentProcess()->name;
  exchange->user = user;
  exchange->cuts = cuts_;
  const bool is_slow = std::exchange(is_next_slow_, false);
  Spawn(wire_, [this, exchange, fate, is_slow] { Travel(exchange, fate, is_slow); });
  const ErrorCode over = IsWrite(request.method) ? ErrorCode::kUnknownOutcome : ErrorCode::kTimeout;
  const std::stop_callback wake(options.stop, [exchange, over] { exchange->Finish(Fail(over, "stopped")); });
  std::unique_lock lock(exchange->mutex);
  const auto is_answered = [&exchange] { return exchange->answer.has_value(); };
  if (options.deadline == std::chrono::steady_clock::time_point::max()) {
    exchange->answered.wait(lock, is_answered);
  } else if (!exchange->answered.wait_until(lock, options.deadline, is_answered)) {
    return Fail(over, "time was over");
  }
  Answer answer = *exchange->answer;  // NOLINT(bugprone-unchecked-optional-access): it was waited for
  if (lies_.changes) lies_.changes(request, answer);
  if (IsWrite(request.method)) {
    story_.Tell(fmt::format("{} {} {} -> {}",
                            ToString(request.method),
                            request.path.substr(request.path.rfind('/') + 1),
                            request.body,
                            answer ? std::to_string(answer->status) : answer.error().message));
  }
  return answer;
}

Network::Answer Network::Watch(const Request& request, const k8sclient::WatchOptions& options,
                               const k8sclient::WatchSink& sink) {
  ++requests_;
  std::this_thread::sleep_for(There());
  ApiServer& server = AnyServer();
  if (weather_.is_away || &server == away_) return Fail(ErrorCode::kUnavailable, "the API server is away");
  bool is_wanted = true;
  // Time that the client was busy with earlier lines: further lines travel meanwhile.
  Nanos busy{0};
  Answer answer = server.Watch(request, options, [&](std::string_view line) {
    std::string kept(line);
    const Nanos travels = microseconds(Below(20) == 0 ? Below(500'000) : Below(3'000));
    const Nanos left = std::max(travels - busy, Nanos(0));
    busy -= travels - left;
    std::this_thread::sleep_for(left);
    if (steering_.line) steering_.line(CurrentProcess()->name, request);
    // If the connection ends here, the client's next watch shows this line.
    const bool is_cut = weather_.is_away || Below(1000) < weather_.lost;
    if (is_cut || options.stop.stop_requested()) return false;
    const Nanos begin = Now();
    is_wanted = (lies_.tells && !lies_.tells(kept)) || sink(kept);
    busy += Now() - begin;
    return is_wanted;
  });
  if (answer && answer->ok() && is_wanted && !options.stop.stop_requested()) ++ended_watches_;
  if (lies_.changes) lies_.changes(request, answer);
  return answer;
}

Network::Answer Link::Call(const Request& request, const k8sclient::CallOptions& options) {
  const bool is_repeated = network_.lies().repeats_when_cut && request.method == Method::kGet;
  // The key includes the query, because each page of a list is an answer of its own.
  const auto question = std::tuple(request.path, request.query, std::string(request.accept));
  if (is_cut() && is_repeated && told_.contains(question)) return told_.at(question);
  const bool is_write = IsWrite(request.method);
  if (request.method == Method::kGet && k8sclient::testing::ParseTarget(request.path).name.empty()) ++lists_;
  if (is_cut()) {
    // Half of the requests find no route, and fail at once. The packets of the others are lost, and the client waits.
    if (Below(2) == 0) return Fail(ErrorCode::kUnavailable, "no route to host");
    const auto now = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::min<Nanos>(options.deadline - now, std::chrono::seconds(Below(10))));
    return Fail(is_write ? ErrorCode::kUnknownOutcome : ErrorCode::kTimeout, "time was over");
  }
  if (is_write && on_write_ && on_write_(request)) network_.SlowNext();
  requests_ += IsNextPage(request) ? 0 : 1;
  auto answer = Send(request, options);
  if (!AwaitHearing(options.deadline, options.stop)) {
    const bool is_over = state_ == State::kUnheard;
    const ErrorCode no_answer = is_over ? ErrorCode::kTimeout : ErrorCode::kUnavailable;
    return Fail(is_write ? ErrorCode::kUnknownOutcome : no_answer,
                is_over ? "time was over" : "the connection was cut");
  }
  if (is_cut()) return Fail(is_write ? ErrorCode::kUnknownOutcome : ErrorCode::kUnavailable, "the connection was cut");
  if (is_repeated && answer && answer->ok()) told_[question] = *answer;
  return answer;
}

Network::Answer Link::Send(const Request& request, const k8sclient::CallOptions& options) {
  if (!IsTroubled(request)) return network_.CallAs(user_, request, options);
  const bool fails = Below(1000) < trouble_.failed;
  const bool is_answer_late = Below(2) == 0;
  const auto late = Nanos(Below(static_cast<std::uint64_t>(trouble_.late.count()) + 1));
  const auto wait = [&] {
    const Nanos left = options.deadline - std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::min(late, left));
    return late < left;
  };
  const auto over = [&] {
    return Fail(IsWrite(request.method) ? ErrorCode::kUnknownOutcome : ErrorCode::kTimeout, "time was over");
  };
  if (!is_answer_late && !wait()) return over();
  Network::Answer answer = Fail(ErrorCode::kUnavailable, "the API server does not answer such requests");
  if (!fails) {
    answer = network_.CallAs(user_, request, options);
  } else if (network_.lies().changes) {
    network_.lies().changes(request, answer);
  }
  if (is_answer_late && !wait()) return over();
  return answer;
}

bool Link::AwaitHearing(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) const {
  if (state_ != State::kUnheard) return true;
  constexpr Nanos kLook = milliseconds(100);
  while (state_ == State::kUnheard) {
    const Nanos left = deadline - std::chrono::steady_clock::now();
    if (left <= Nanos(0) || stop.stop_requested()) return false;
    std::this_thread::sleep_for(std::min(left, kLook));
  }
  return Below(2) == 0;
}

Network::Answer Link::Watch(const Request& request, const k8sclient::WatchOptions& options,
                            const k8sclient::WatchSink& sink) {
  if (is_cut()) return Fail(ErrorCode::kUnavailable, "no route to host");
  const auto hears = [&] {
    constexpr Nanos kLook = milliseconds(100);
    while (trouble_.is_held && IsTroubled(request) && !options.stop.stop_requested()) {
      std::this_thread::sleep_for(kLook);
    }
    return AwaitHearing(std::chrono::steady_clock::now() + options.idle_max, options.stop);
  };
  ++requests_;
  auto answer =
      network_.Watch(request, options, [&](std::string_view line) { return hears() && !is_cut() && sink(line); });
  if (!hears()) return Fail(ErrorCode::kUnavailable, "the connection was cut");
  return answer;
}

}  // namespace berth::sim
