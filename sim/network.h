// SPDX-License-Identifier: Apache-2.0
// Network: carries requests from programs to API servers, and causes the faults of the network.
//
// Each request goes to a random API server, as behind a load balancer. A thread of the simulated process "network"
// carries the request, so the request arrives even if its sender is killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "k8sclient/api.h"
#include "sim/api_server.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

// Part of the answer to each refused write of a block (Network::RefuseWritesOf).
inline constexpr const char* kRefusal = "refused-block.example.org";

// The faults of the network. The numbers without a unit are of a thousand requests.
struct Weather {
  bool is_away = false;       // no API server can be reached
  std::uint64_t refused = 0;  // fail before they reach an API server, and the client knows
  std::uint64_t lost = 0;     // are executed, and the answer is lost
  std::uint64_t late = 0;     // are executed up to 4 s after the client got an error
  std::uint64_t denied = 0;   // are answered with an error status; some are executed
  Nanos lag{0};               // longest delay of the API servers' watch caches
};

class Network final : public k8sclient::Api {
 public:
  // `story` and the servers must outlive this.
  explicit Network(Story& story) : story_(story) {}

  // Requires: no request was sent yet.
  void Add(ApiServer& server) { servers_.push_back(&server); }
  void Set(const Weather& weather);
  // Restarts a random API server, which cannot be reached for `away`. Its watches end, and its new cache knows nothing
  // of the past.
  void RestartOne(Nanos away);
  // Cuts all connections: requests on the way are not executed, and answers on the way are lost.
  void CutAll() { ++cuts_; }

  // Plants (plants.h) change requests, answers and the lines of watches with these functions. Unset members change
  // nothing. Answers and lines are changed in the process that sent the request.
  using Answer = Expected<k8sclient::Response>;
  struct Lies {
    std::function<bool(const k8sclient::Request&)> swallows = {};  // true: a GET replaces the request
    std::function<void(k8sclient::Request&)> rewrites = {};
    std::function<void(const k8sclient::Request&, Answer&)> changes = {};
    std::function<bool(std::string& line)> tells = {};  // false: the watch leaves this line out
    bool lost_is_refused = false;                       // a write whose answer was lost counts as not sent
    bool refuses_all = false;       // while writes of one block are refused, writes of all blocks are
    bool repeats_when_cut = false;  // a GET over a cut link gets the last answer to this GET
  };
  void Plant(Lies lies) { lies_ = std::move(lies); }
  [[nodiscard]] const Lies& lies() const { return lies_; }

  enum class Fate : std::uint8_t { kAnswered, kRefused, kLost, kLate, kDenied };
  // In a script (script_answers.h), Steering decides what is random elsewhere. `who` is the process that sends the
  // request or watches. Both functions may wait: then the request, or the line of the watch, is held back.
  struct Steering {
    // Called on a thread of the network, before the request reaches an API server.
    std::function<Fate(const std::string& who, const k8sclient::Request&)> request = {};
    // Called in the process that watches, before each line.
    std::function<void(const std::string& who, const k8sclient::Request&)> line = {};
  };
  void Steer(Steering steering) { steering_ = std::move(steering); }

  // From now on each write of the block is answered with this status and message, and not executed. Nothing else is
  // refused. An empty name ends the refusal.
  void RefuseWritesOf(std::string block, int status = 0, const std::string& message = {});

  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  // Number of watches that an API server ended before the client did.
  [[nodiscard]] std::uint64_t ended_watches() const { return ended_watches_; }

  Answer Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) override {
    return CallAs("", request, options);
  }
  // Sends the request with the credentials of `user`: "node <name>" or "controller"; any other user is a person.
  Answer CallAs(const std::string& user, const k8sclient::Request& request, const k8sclient::CallOptions& options);
  // In a callback of an API server: the user whose request is being executed; empty: a person.
  [[nodiscard]] std::string Sender() const;
  // The next request takes up to 4 s to reach an API server, or its answer takes up to 4 s.
  void SlowNext() { is_next_slow_ = true; }
  Answer Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
               const k8sclient::WatchSink& sink) override;

 private:
  struct Exchange;
  [[nodiscard]] Fate Choose() const;
  // Carries the request to an API server and the answer back. Runs on a thread of the network.
  void Travel(const std::shared_ptr<Exchange>& exchange, Fate fate, bool is_slow);
  [[nodiscard]] Answer Execute(const Exchange& exchange);
  [[nodiscard]] bool IsRefused(const k8sclient::Request& request) const;
  [[nodiscard]] ApiServer& AnyServer();
  [[nodiscard]] ErrorCode NoAnswer(const k8sclient::Request& request) const;

  Story& story_;
  std::vector<ApiServer*> servers_;
  const ApiServer* away_ = nullptr;  // the API server that is being restarted
  Weather weather_;
  bool is_next_slow_ = false;
  std::uint64_t cuts_ = 0;  // calls of CutAll
  Lies lies_;
  Steering steering_;
  std::string refused_block_;
  k8sclient::Response refusal_;
  std::uint64_t requests_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t ended_watches_ = 0;
  std::map<std::uint64_t, std::string> senders_;  // users of the requests that are being executed, by fiber
  ProcessPointer wire_ = std::make_shared<Process>("network");
};

// Link: the connection of one machine's agents, or of one controller, to the network. A link can be cut, or can lose
// all answers.
class Link final : public k8sclient::Api {
 public:
  enum class State : std::uint8_t {
    kOpen,
    kCut,      // nothing arrives
    kUnheard,  // requests are executed, but no answer and no line of a watch arrives
  };
  // Faults of one kind of request.
  struct Trouble {
    std::string path = {};  // how the requests' paths begin; empty: no fault
    k8sclient::Method method = k8sclient::Method::kGet;
    std::uint64_t failed = 0;  // so many of a thousand requests fail and are not executed
    Nanos late{0};             // longest delay of a request or its answer
    bool is_held = false;      // watches show nothing
    friend bool operator==(const Trouble&, const Trouble&) = default;
  };
  // `network` must outlive this. `user`: see Network::CallAs.
  Link(Network& network, std::string user) : network_(network), user_(std::move(user)) {}

  void Set(State state) { state_ = state; }
  void Set(Trouble trouble) { trouble_ = std::move(trouble); }
  [[nodiscard]] const Trouble& trouble() const { return trouble_; }
  // Number of requests that were sent.
  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t lists() const { return lists_; }
  // Called before each write. True: the write or its answer takes long (Network::SlowNext).
  using OnWrites = std::function<bool(const k8sclient::Request& request)>;
  void OnWrite(OnWrites on_write) { on_write_ = std::move(on_write); }

  Network::Answer Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) override;
  Network::Answer Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                        const k8sclient::WatchSink& sink) override;

 private:
  [[nodiscard]] bool is_cut() const { return state_ == State::kCut; }
  [[nodiscard]] bool IsTroubled(const k8sclient::Request& request) const {
    return !trouble_.path.empty() && request.method == trouble_.method && request.path.starts_with(trouble_.path);
  }
  // Sends over an open link, with the trouble that is set.
  [[nodiscard]] Network::Answer Send(const k8sclient::Request& request, const k8sclient::CallOptions& options);
  // Waits while the link is kUnheard. True: the answer arrives after all, because TCP sends it again. False: the
  // connection is given up, or the time is over.
  [[nodiscard]] bool AwaitHearing(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) const;

  Network& network_;
  const std::string user_;
  OnWrites on_write_;
  State state_ = State::kOpen;
  Trouble trouble_;
  std::uint64_t requests_ = 0;
  std::uint64_t lists_ = 0;
  // The last answers by path, query and media type, if `repeats_when_cut` is planted.
  std::map<std::tuple<std::string, k8sclient::Query, std::string>, k8sclient::Response> told_;
};

}  // namespace berth::sim
