// SPDX-License-Identifier: Apache-2.0
// Network: what lies between a program and the API servers, and whatever can go wrong there.
//
// Chance says which API server gets a request, as a balancer of load does. Each request travels in a process of its
// own, so that it arrives although its sender was killed.
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

// In the answer to each write of a block that is refused (Network::RefuseWritesOf).
inline constexpr const char* kRefusal = "refused-block.example.org";

// Of a thousand requests so many.
struct Weather {
  bool is_away = false;       // the API servers answer nobody
  std::uint64_t refused = 0;  // come to nothing, and the client knows
  std::uint64_t lost = 0;     // are executed, and the answer does not come
  std::uint64_t late = 0;     // are executed long after the client gave up
  std::uint64_t denied = 0;   // are answered with an error, and some are executed all the same
  Nanos lag{0};               // at most so late a cache of an API server sees what is stored
};

class Network final : public k8sclient::Api {
 public:
  // Must outlive this, as must the servers.
  explicit Network(Story& story) : story_(story) {}

  // Before the first request.
  void Add(ApiServer& server) { servers_.push_back(&server); }
  void Set(const Weather& weather);
  // One of them is away for so long, and has forgotten what its cache knew.
  void RestartOne(Nanos away);
  // All connections end. What was under way is lost.
  void CutAll() { ++cuts_; }

  // What is planted (plants.h): changes a request, its true answer, or what a watch tells; or keeps a request from
  // being executed at all. Unset members lie about nothing. Answers and what a watch tells are changed in the process
  // that asked.
  using Answer = Expected<k8sclient::Response>;
  struct Lies {
    std::function<bool(const k8sclient::Request&)> swallows = {};  // it is not executed, and answered as if it were
    std::function<void(k8sclient::Request&)> rewrites = {};
    std::function<void(const k8sclient::Request&, Answer&)> changes = {};
    std::function<bool(std::string& line)> tells = {};  // false: that line of a watch is left out
    bool lost_is_refused = false;   // a write whose answer was lost counts as one that was never sent
    bool refuses_all = false;       // while writes of one block are refused, writes of all blocks are
    bool repeats_when_cut = false;  // a GET over a link that is cut is answered as that object was told last
  };
  void Plant(Lies lies) { lies_ = std::move(lies); }
  [[nodiscard]] const Lies& lies() const { return lies_; }

  enum class Fate : std::uint8_t { kAnswered, kRefused, kLost, kLate, kDenied };
  // Steering decides in a script (script_answers.h) what chance decides elsewhere. `who` is the process that sends the
  // request or watches. Both functions may wait: then the request, or the line of the watch, is held back.
  struct Steering {
    // Called in a process of the network, before the request reaches an API server.
    std::function<Fate(const std::string& who, const k8sclient::Request&)> request = {};
    // Called in the process that watches, before each line.
    std::function<void(const std::string& who, const k8sclient::Request&)> line = {};
  };
  void Steer(Steering steering) { steering_ = std::move(steering); }

  // From now on each write of that block is answered with that status, as an admission webhook (403) or a rule (422)
  // does it, and nothing else is. Empty: no write is any more.
  void RefuseWritesOf(std::string block, int status);

  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  // Number of watches that an API server had begun, and ended before the client wanted it.
  [[nodiscard]] std::uint64_t ended_watches() const { return ended_watches_; }

  Answer Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) override {
    return CallAs("", request, options);
  }
  // With the credentials of that user: "node <name>" or "controller"; anybody else is a person.
  Answer CallAs(const std::string& user, const k8sclient::Request& request, const k8sclient::CallOptions& options);
  // Whose request is being executed, in an API server's callback; empty: a person's.
  [[nodiscard]] std::string Sender() const;
  // The next one arrives late, and is answered.
  void SlowNext() { is_next_slow_ = true; }
  Answer Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
               const k8sclient::WatchSink& sink) override;

 private:
  struct Exchange;
  [[nodiscard]] Fate Choose() const;
  // In the request's own process.
  void Travel(const std::shared_ptr<Exchange>& exchange, Fate fate, bool is_slow);
  [[nodiscard]] Answer Execute(const Exchange& exchange);
  [[nodiscard]] bool IsRefused(const k8sclient::Request& request) const;
  [[nodiscard]] ApiServer& AnyServer();
  [[nodiscard]] ErrorCode NoAnswer(const k8sclient::Request& request) const;

  Story& story_;
  std::vector<ApiServer*> servers_;
  const ApiServer* away_ = nullptr;  // is being restarted
  Weather weather_;
  bool is_next_slow_ = false;
  std::uint64_t cuts_ = 0;  // of all
  Lies lies_;
  Steering steering_;
  std::string refused_block_;
  int refused_with_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t ended_watches_ = 0;
  std::map<std::uint64_t, std::string> senders_;  // of what is being executed, by fiber
  ProcessPointer wire_ = std::make_shared<Process>("network");
};

// Link: the way of one machine's agents, or of the controllers, to the network, which can be cut, or lead in one
// direction only.
class Link final : public k8sclient::Api {
 public:
  enum class State : std::uint8_t {
    kOpen,
    kCut,      // nothing arrives
    kUnheard,  // requests arrive and are executed; no answer comes, nor what a watch tells
  };
  // Trouble with one kind of request.
  struct Trouble {
    std::string path = {};  // of all objects of a kind; empty: nothing is wrong
    k8sclient::Method method = k8sclient::Method::kGet;
    std::uint64_t failed = 0;  // of a thousand requests so many fail, and are not executed
    Nanos late{0};             // a request or its answer takes so long, at most
    bool is_held = false;      // watches tell nothing
    friend bool operator==(const Trouble&, const Trouble&) = default;
  };
  // Must outlive this. Its user: as Network::CallAs.
  Link(Network& network, std::string user) : network_(network), user_(std::move(user)) {}

  void Set(State state) { state_ = state; }
  void Set(Trouble trouble) { trouble_ = std::move(trouble); }
  [[nodiscard]] const Trouble& trouble() const { return trouble_; }
  // So many were sent.
  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t lists() const { return lists_; }
  // Called before each write that is sent. True: it is long under way.
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
  // Sends as Call does over an open link, with the trouble that is set.
  [[nodiscard]] Network::Answer Send(const k8sclient::Request& request, const k8sclient::CallOptions& options);
  // Until what was sent meanwhile comes after all: TCP sends it again. False: it does not, the connection is given up.
  [[nodiscard]] bool AwaitHearing(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop) const;

  Network& network_;
  const std::string user_;
  OnWrites on_write_;
  State state_ = State::kOpen;
  Trouble trouble_;
  std::uint64_t requests_ = 0;
  std::uint64_t lists_ = 0;
  // What was answered, by path, query and form, if that is planted.
  std::map<std::tuple<std::string, k8sclient::Query, std::string>, k8sclient::Response> told_;
};

}  // namespace berth::sim
