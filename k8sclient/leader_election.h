// SPDX-License-Identifier: Apache-2.0
// Leader election by a Lease, compatible with client-go: nearly always, at most one of several candidates leads.
//
// A Lease is no fence. If a leader is held up between a decision and its write, another candidate may lead before the
// write. So every write of a leader must be a compare-and-swap. Candidates do not compare the clocks of different
// machines: each candidate measures with its own clock how long the Lease has not changed. Rules: client-go,
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

// spec of a coordination.k8s.io/v1 Lease. Times stay text, because berth shows them and does not compute with them.
struct Lease {
  std::string holder = {};
  std::int64_t duration_seconds = 0;
  std::string acquire_time = {};
  std::string renew_time = {};
  std::int64_t transitions = 0;

  friend bool operator==(const Lease&, const Lease&) = default;
};

struct ElectionTimes {
  std::chrono::milliseconds lease = std::chrono::seconds(15);  // a Lease expires this long after its last renewal
  std::chrono::milliseconds renew_deadline =
      std::chrono::seconds(10);  // a leader that could not renew for this long stops
  std::chrono::milliseconds retry = std::chrono::seconds(2);
};

// The decisions of one candidate, without I/O.
class Candidate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct HeldBy {
    std::string holder;
    TimePoint until;  // the Lease expires then, unless the holder renews it
  };
  using Decision = std::variant<Lease, HeldBy>;

  Candidate(std::string identity, ElectionTimes times) : identity_(std::move(identity)), times_(times) {}

  // Decides what to do about the Lease that was just read; nothing: there is no Lease. Returns the Lease to write, or
  // who holds it. wall_now: as in a Lease, with microseconds.
  [[nodiscard]] Decision Decide(const std::optional<Lease>& found, TimePoint now, const std::string& wall_now);

 private:
  const std::string identity_;
  const ElectionTimes times_;
  std::optional<Lease> observed_;  // the Lease as last read
  TimePoint observed_at_;          // when this candidate first read `observed_`
};

struct ElectionOptions {
  std::string path;      // path of the collection: "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"
  std::string name;      // name of the Lease
  std::string identity;  // unique among all processes, restarts included
  // Annotation with a leader's note for the next leader; empty: no notes.
  std::string note_key = {};
  ElectionTimes times = {};
};

class LeaderElector {
 public:
  // Requires: lease > renew_deadline > 1.2 * retry > 0. api and clock must outlive this.
  LeaderElector(Api& api, Clock& clock, ElectionOptions options);

  // Called with the error of each attempt that failed, for logs; most attempts are repeated. Set before Run.
  std::function<void(const Error&)> on_failure = [](const Error&) {};

  // The leader calls `note` at each renewal and at the release, in the thread of Run, and writes the text into the
  // Lease for the next leader; empty: the Lease keeps its note. Set before Run.
  std::function<std::string()> note = [] { return std::string(); };
  // The note that the previous leader left; empty: no note. Only `lead` and the functions that it calls may use it.
  [[nodiscard]] const std::string& found_note() const { return found_note_; }

  // Waits until this process leads, then runs `lead` in a thread of its own until stop is requested, `lead` returns, or
  // the Lease is lost. `lead` must return soon after its token requests a stop. If possible, Run then gives up the
  // Lease. Blocks. Errors: kUnavailable (the Lease could not be renewed in time), kConflict (another process has taken
  // the Lease). After an error the process should end.
  [[nodiscard]] Expected<void> Run(const std::stop_token& stop, const std::function<void(std::stop_token)>& lead);

 private:
  struct StoredLease {
    Lease lease;
    std::string resource_version;
    std::string note = {};
  };
  // Errors: kInternal: the Lease has no resourceVersion.
  [[nodiscard]] Expected<StoredLease> StoredLeaseOf(const nlohmann::json& object) const;

  using OtherHolder = std::optional<Candidate::HeldBy>;

  // Writes `lease` in place of `found`, by compare-and-swap; nothing: creates the Lease.
  [[nodiscard]] Expected<StoredLease> Write(const Lease& lease, const std::optional<StoredLease>& found,
                                            const CallOptions& options);
  // One attempt. Returns the other process that holds the Lease; nothing: this process holds it. Errors: those of the
  // API; kConflict: another process wrote first.
  [[nodiscard]] Expected<OtherHolder> TryOnce(const CallOptions& options);
  [[nodiscard]] Expected<OtherHolder> DecideAndWrite(const std::optional<StoredLease>& found,
                                                     const CallOptions& options);
  [[nodiscard]] bool Acquire(const std::stop_token& stop);
  // Renews the Lease every retry period, counted from the start of the last attempt.
  [[nodiscard]] Expected<void> RenewUntilStopped(const std::stop_token& stop);
  // Gives up the lead, so that another candidate can lead at once.
  void Release();
  [[nodiscard]] std::string WallNow();

  Api& api_;
  Clock& clock_;
  const ElectionOptions options_;
  Candidate candidate_;
  std::string found_note_;
  bool is_leading_ = false;
  Candidate::TimePoint renewed_at_;          // start of the last successful write of the Lease
  std::optional<StoredLease> last_written_;  // the Lease as this process last wrote it; nothing: unknown
};

}  // namespace berth::k8sclient
