// SPDX-License-Identifier: Apache-2.0
// Leader election by a Lease, compatible with client-go's: of several candidates at most one leads, nearly always.
//
// A Lease is no fence. A leader that is held up between a decision and its write may be overtaken, so everything a
// leader writes must still be a compare-and-swap. Clocks of different machines are never compared: each candidate
// measures with its own how long it has seen the lease unchanged. Rules: client-go,
// tools/leaderelection/leaderelection.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::k8sclient {

// spec of a coordination.k8s.io/v1 Lease. Times are kept as the text that was read: they are shown, not computed with.
struct Lease {
  std::string holder = {};
  std::int64_t duration_seconds = 0;
  std::string acquire_time = {};
  std::string renew_time = {};
  std::int64_t transitions = 0;

  friend bool operator==(const Lease&, const Lease&) = default;
};

struct ElectionTimes {
  std::chrono::milliseconds lease = std::chrono::seconds(15);  // how long a lease that is not renewed holds
  std::chrono::milliseconds renew_deadline =
      std::chrono::seconds(10);  // a leader that could not renew for that long stops
  std::chrono::milliseconds retry = std::chrono::seconds(2);
};

// The decisions of one candidate: values in, values out.
class Candidate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Create {
    Lease lease;
  };
  struct Update {  // of the lease that was read, by compare-and-swap
    Lease lease;
  };
  struct HeldBy {
    std::string holder;
    TimePoint until;  // unless it is renewed
  };
  using Decision = std::variant<Create, Update, HeldBy>;

  Candidate(std::string identity, ElectionTimes times) : identity_(std::move(identity)), times_(times) {}

  // What to do about the lease as it was just read; nothing: there is none. wall_now: as in a Lease, with microseconds.
  [[nodiscard]] Decision Decide(const std::optional<Lease>& found, TimePoint now, const std::string& wall_now);

  // The lease as this candidate would leave it behind for the next one.
  [[nodiscard]] Lease Released(const Lease& held, const std::string& wall_now) const;

 private:
  const std::string identity_;
  const ElectionTimes times_;
  std::optional<Lease> observed_;  // the last one read
  TimePoint observed_at_;          // when it was first seen like that
};

struct ElectionOptions {
  std::string path;      // of the collection: "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"
  std::string name;      // of the Lease
  std::string identity;  // unique among all processes, restarts included
  // Annotation under which a leader leaves a note to the next one; empty: none.
  std::string note_key = {};
  ElectionTimes times = {};
};

class LeaderElector {
 public:
  // Requires: lease > renew_deadline > 1.2 * retry > 0. api and clock must outlive this.
  LeaderElector(Api& api, Clock& clock, ElectionOptions options);

  // Tells about a round that failed, for logs: it is tried again. Set before Run.
  std::function<void(const Error&)> on_failure = [](const Error&) {};

  // What the leader wants the next one to know; written with each renewal. Called from the thread in Run. Set before
  // Run.
  std::function<std::string()> note = [] { return std::string(); };
  // What the leader before left; empty: nothing. For `lead`, and what it calls.
  [[nodiscard]] const std::string& found_note() const { return found_note_; }

  // Waits until this process leads, then runs `lead` in a thread of its own until stop is requested, `lead` returns, or
  // the lease is lost; `lead` must return soon after its token asks it to. The lease is given back where possible.
  // Blocks. Errors: kUnavailable (the lease could not be renewed in time), kConflict (another has taken it): then the
  // process should end.
  [[nodiscard]] Expected<void> Run(const std::stop_token& stop, const std::function<void(std::stop_token)>& lead);

 private:
  struct Held {
    Lease lease;
    std::string resource_version;
    std::string note = {};
  };
  [[nodiscard]] Held HeldIn(const nlohmann::json& object) const;

  using OtherHolder = std::optional<Candidate::HeldBy>;

  [[nodiscard]] Expected<std::optional<Held>> Read(const CallOptions& options);
  [[nodiscard]] Expected<Held> Write(const Candidate::Decision& decision, const std::optional<Held>& found,
                                     const CallOptions& options);
  // One round. Returns who else holds the lease; nothing: we do. Errors: those of the API; kConflict: lost a race.
  [[nodiscard]] Expected<OtherHolder> TryOnce(const CallOptions& options);
  [[nodiscard]] Expected<OtherHolder> WriteRound(const std::optional<Held>& found, const CallOptions& options);
  [[nodiscard]] bool Acquire(const std::stop_token& stop);
  [[nodiscard]] Expected<void> Keep(const std::stop_token& stop);
  void Release();
  [[nodiscard]] std::string WallNow();

  Api& api_;
  Clock& clock_;
  const ElectionOptions options_;
  Candidate candidate_;
  std::string found_note_;
  bool is_leading_ = false;
  std::optional<Held> held_;  // as last written by us; nothing when that is not known
};

}  // namespace berth::k8sclient
