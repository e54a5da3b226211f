// SPDX-License-Identifier: Apache-2.0
// Computes how long a key waits after failures.
#include "reconciler/backoff.h"

#include <algorithm>

namespace berth::reconciler {

namespace {

constexpr std::chrono::milliseconds kFirst{50};
constexpr std::chrono::milliseconds kConflictMax{1000};
constexpr std::chrono::milliseconds kMax{30'000};
constexpr std::chrono::minutes kForgetAfter{5};
constexpr int kDoublingsMax = 10;

}  // namespace

bool Backoff::MayTry(const std::string& key, Time now) const { return NotBefore(key) <= now; }

Backoff::Time Backoff::NotBefore(const std::string& key) const {
  const auto found = waits_.find(key);
  return found == waits_.end() ? Time::min() : found->second.not_before;
}

bool Backoff::HasFailed(const std::string& key) const {
  const auto found = waits_.find(key);
  return found != waits_.end() && found->second.failures > 0;
}

void Backoff::Pause(const std::string& key, std::chrono::milliseconds pause, Time now) {
  Wait& wait = waits_[key];
  wait.not_before = std::max(wait.not_before, now + pause);
}

std::chrono::milliseconds Backoff::Failed(const std::string& key, const Error& error, Time now) {
  Wait& wait = waits_[key];
  const bool is_conflict = error.code == ErrorCode::kConflict || error.code == ErrorCode::kNotFound ||
                           error.code == ErrorCode::kAlreadyExists;
  const std::chrono::milliseconds doubled = kFirst * (1 << std::min(wait.failures, kDoublingsMax));
  const std::chrono::milliseconds pause =
      std::max(std::min(doubled, is_conflict ? kConflictMax : kMax), error.retry_after);
  ++wait.failures;
  wait.not_before = now + pause;
  if (pause >= std::chrono::seconds(1)) wait.not_before = std::chrono::ceil<std::chrono::seconds>(wait.not_before);
  return pause;
}

void Backoff::Succeeded(const std::string& key) { waits_.erase(key); }

std::optional<Backoff::Time> Backoff::Next(Time now) const {
  std::optional<Time> next;
  for (const auto& [key, wait] : waits_) {
    if (wait.not_before > now) next = std::min(next.value_or(wait.not_before), wait.not_before);
  }
  return next;
}

void Backoff::Forget(Time now, const std::set<std::string>& wanted) {
  std::erase_if(waits_, [&](const auto& item) {
    return item.second.not_before + kForgetAfter < now && !wanted.contains(item.first);
  });
}

}  // namespace berth::reconciler
