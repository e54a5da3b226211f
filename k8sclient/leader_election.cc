// SPDX-License-Identifier: Apache-2.0
// Leader election: decides what to do about the Lease, and reads and writes the Lease.
#include "k8sclient/leader_election.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/timestamp.h"
#include "k8sclient/text_at.h"
#include "k8sclient/verbs.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

// A candidate reads the Lease every 1 to 1.2 retry periods. A dead leader's Lease expires one lease time after the
// read that first showed its last renewal.
constexpr double kJitter = 0.2;

std::int64_t NumberAt(const json& object, const char* key) {
  const json& number = ValueAt(object, key);
  return number.is_number_integer() ? number.get<std::int64_t>() : 0;
}

Lease LeaseOf(const json& object) {
  const json& spec = ValueAt(object, "spec");
  return {.holder = TextAt(spec, "holderIdentity"),
          .duration_seconds = NumberAt(spec, "leaseDurationSeconds"),
          .acquire_time = TextAt(spec, "acquireTime"),
          .renew_time = TextAt(spec, "renewTime"),
          .transitions = NumberAt(spec, "leaseTransitions")};
}

json SpecOf(const Lease& lease) {
  return {{"holderIdentity", lease.holder},
          {"leaseDurationSeconds", lease.duration_seconds},
          {"acquireTime", lease.acquire_time},
          {"renewTime", lease.renew_time},
          {"leaseTransitions", lease.transitions}};
}

}  // namespace

Candidate::Decision Candidate::Decide(const std::optional<Lease>& found, TimePoint now, const std::string& wall_now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(times_.lease).count();
  Lease wanted{.holder = identity_, .duration_seconds = seconds, .acquire_time = wall_now, .renew_time = wall_now};
  if (!found) return wanted;
  if (observed_ != found) {
    observed_ = found;
    observed_at_ = now;
  }
  const TimePoint until = observed_at_ + std::chrono::seconds(found->duration_seconds);
  const bool held = !found->holder.empty() && now < until;
  if (found->holder != identity_ && held) return HeldBy{.holder = found->holder, .until = until};
  const bool still_ours = found->holder == identity_;
  if (still_ours) wanted.acquire_time = found->acquire_time;
  wanted.transitions = found->transitions + (still_ours ? 0 : 1);
  return wanted;
}

LeaderElector::LeaderElector(Api& api, Clock& clock, ElectionOptions options)
    : api_(api), clock_(clock), options_(std::move(options)), candidate_(options_.identity, options_.times) {
  const ElectionTimes& times = options_.times;
  BERTH_CHECK(times.lease > times.renew_deadline);
  BERTH_CHECK(times.renew_deadline > times.retry * (1 + kJitter));
  BERTH_CHECK(times.retry.count() > 0);
}

std::string LeaderElector::WallNow() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(clock_.WallNow());
  return FormatMicroTimestamp(now.time_since_epoch().count());
}

Expected<LeaderElector::StoredLease> LeaderElector::StoredLeaseOf(const json& object) const {
  const json& metadata = ValueAt(object, "metadata");
  std::string version = TextAt(metadata, "resourceVersion");
  // With an empty version, the next patch would overwrite another holder.
  if (version.empty()) return Fail(ErrorCode::kInternal, "lease " + options_.name + " has no resourceVersion");
  return StoredLease{.lease = LeaseOf(object),
                     .resource_version = std::move(version),
                     .note = TextAt(ValueAt(metadata, "annotations"), options_.note_key.c_str())};
}

Expected<LeaderElector::StoredLease> LeaderElector::Write(const Lease& lease, const std::optional<StoredLease>& found,
                                                          const CallOptions& options) {
  json object = {{"spec", SpecOf(lease)}};
  if (found) {
    object["metadata"] = {{"resourceVersion", found->resource_version}};
    const std::string text = is_leading_ && !options_.note_key.empty() ? note() : std::string();
    if (!text.empty()) object["metadata"]["annotations"][options_.note_key] = text;
  } else {
    object.update(
        {{"apiVersion", "coordination.k8s.io/v1"}, {"kind", "Lease"}, {"metadata", {{"name", options_.name}}}});
  }
  const Expected<json> written = found ? MergePatch(api_, ObjectPath(options_.path, options_.name), object, options)
                                       : Create(api_, options_.path, object, options);
  if (!written) return std::unexpected(written.error());
  return StoredLeaseOf(*written);
}

Expected<LeaderElector::OtherHolder> LeaderElector::TryOnce(const CallOptions& options) {
  if (last_written_) {  // a leader that knows its last write needs no read
    const Expected<OtherHolder> renewed = DecideAndWrite(std::exchange(last_written_, std::nullopt), options);
    // Another process has changed the Lease: read it to see whether this process still leads.
    if (renewed || renewed.error().code != ErrorCode::kConflict) return renewed;
  }
  const Expected<json> object = Get(api_, ObjectPath(options_.path, options_.name), options);
  if (!object && object.error().code == ErrorCode::kNotFound) return DecideAndWrite(std::nullopt, options);
  const Expected<StoredLease> found = object ? StoredLeaseOf(*object) : std::unexpected(object.error());
  if (!found) return std::unexpected(found.error());
  return DecideAndWrite(*found, options);
}

Expected<LeaderElector::OtherHolder> LeaderElector::DecideAndWrite(const std::optional<StoredLease>& found,
                                                                   const CallOptions& options) {
  const auto began = clock_.Now();
  const Candidate::Decision decision =
      candidate_.Decide(found ? std::optional(found->lease) : std::nullopt, began, WallNow());
  if (const auto* other = std::get_if<Candidate::HeldBy>(&decision)) return *other;
  // A stop must not interrupt the write. Without the answer, this process could not give up the Lease, and the next
  // leader would have to wait until the Lease expires.
  Expected<StoredLease> written = Write(std::get<Lease>(decision), found, {.deadline = options.deadline});
  if (!written) return std::unexpected(std::move(written.error()));
  last_written_ = std::move(*written);
  renewed_at_ = began;  // other candidates see the renewal later than this
  return std::nullopt;
}

bool LeaderElector::Acquire(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Expected<OtherHolder> other =
        TryOnce({.deadline = clock_.Now() + options_.times.renew_deadline, .stop = stop});
    if (other && !*other) return true;
    if (!other && !stop.stop_requested()) on_failure(other.error());
    auto wait =
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.times.retry * (1 + clock_.Random() * kJitter));
    // Try again at the latest when the Lease expires.
    if (other && *other)
      wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>((*other)->until - clock_.Now()));
    clock_.Sleep(wait, stop);
  }
  return false;
}

Expected<void> LeaderElector::RenewUntilStopped(const std::stop_token& stop) {
  auto began = renewed_at_;
  // If the last attempt took longer than the retry period, another candidate may lead by now: do not wait.
  const auto wait = [&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(began + options_.times.retry - clock_.Now());
    return std::max(left, std::chrono::milliseconds(0));
  };
  while (clock_.Sleep(wait(), stop)) {
    began = clock_.Now();
    const auto deadline = renewed_at_ + options_.times.renew_deadline;
    const Expected<OtherHolder> other =
        TryOnce({.deadline = std::min(deadline, began + options_.times.renew_deadline / 2)});
    if (other && *other) {
      return Fail(ErrorCode::kConflict,
                  "lease " + options_.name + " was taken by \"" + (*other)->holder.substr(0, 200) + "\"");
    }
    if (other) continue;
    on_failure(other.error());
    if (clock_.Now() + options_.times.retry >= deadline) {
      return Fail(ErrorCode::kUnavailable,
                  "lease " + options_.name + " could not be renewed: " + other.error().message);
    }
  }
  return {};
}

void LeaderElector::Release() {
  // If the outcome of the last write is unknown, another process may hold the Lease: let it expire.
  if (!last_written_) return;
  const std::int64_t transitions = last_written_->lease.transitions;
  const std::string now = WallNow();
  const Lease released{.duration_seconds = 1, .acquire_time = now, .renew_time = now, .transitions = transitions};
  const auto written = Write(released, last_written_, {.deadline = clock_.Now() + options_.times.retry});
  if (!written) on_failure(written.error().Within("release lease " + options_.name));
  last_written_.reset();
}

Expected<void> LeaderElector::Run(const std::stop_token& stop, const std::function<void(std::stop_token)>& lead) {
  if (!Acquire(stop)) return {};
  is_leading_ = true;
  found_note_ = last_written_ ? last_written_->note : std::string();
  std::stop_source leading;
  const std::stop_callback pass_on(stop, [&leading] { leading.request_stop(); });
  std::jthread leader([&] {
    lead(leading.get_token());
    leading.request_stop();  // if `lead` ends by itself, renewing the Lease ends too
  });
  Expected<void> kept = RenewUntilStopped(leading.get_token());
  leading.request_stop();
  leader.join();
  if (kept) Release();
  return kept;
}

}  // namespace berth::k8sclient
