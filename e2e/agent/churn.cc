// SPDX-License-Identifier: Apache-2.0
// Churn: the callers and the ledger.
#include "e2e/agent/churn.h"

#include <algorithm>
#include <poll.h>

#include "e2e/agent/node_fixture.h"

namespace berth::e2e {
namespace {

// A caller that has this many containers deletes one; with fewer, it adds one.
constexpr std::size_t kHeldMax = 5;
constexpr int kDelTriesMax = 60;
constexpr std::chrono::seconds kSlow{1};

}  // namespace

Churn::Churn(MakeCall make_call, int callers)
    : make_call_(std::move(make_call)), callers_(callers), of_caller_(static_cast<std::size_t>(callers)) {}

Churn::~Churn() {
  MayEnd();
  Join();
}

void Churn::Start(int calls) {
  may_end_ = false;
  answered_ = 0;
  wanted_ = calls;
  for (int i = 0; i < callers_; ++i) threads_.emplace_back([this, i] { RunCaller(i); });
}

void Churn::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Churn::AwaitCalls(int count) const {
  while (answered_ < count) ::poll(nullptr, 0, 1);
}

void Churn::RunCaller(int number) {
  std::vector<std::string>& own = of_caller_[static_cast<std::size_t>(number)];
  // The limits differ, so that callers do not run in step; half of the calls are ADDs.
  std::size_t limit = 1 + static_cast<std::size_t>(number) % kHeldMax;
  while (!may_end_ || answered_ < wanted_) {
    if (own.size() < limit) {
      const std::string id = "c" + std::to_string(++containers_);
      if (Add(id)) own.push_back(id);
    } else {
      Delete(own.front());
      own.erase(own.begin());
      limit = 1 + (limit + 2) % kHeldMax;
    }
  }
}

bool Churn::Add(const std::string& id) {
  const PluginOutcome outcome = RunPlugin(make_call_("ADD", id, ++turns_));
  ++answered_;
  const std::string address = AddressOf(outcome);
  if (!address.empty()) {
    ++added_;
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = held_.emplace(address, id);
    if (!is_new) complaints_.push_back(address + " was given to " + id + " while " + entry->second + " has it");
    return true;
  }
  ++failed_adds_;
  if (CodeOf(outcome) != kTryAgain) Complain("ADD of " + id + " answers " + outcome.out + outcome.err);
  Delete(id);
  return false;
}

void Churn::Delete(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [&](const auto& entry) { return entry.second == id; });
  }
  for (int tries = 0; tries < kDelTriesMax; ++tries) {
    const PluginOutcome outcome = RunPlugin(make_call_("DEL", id, ++turns_));
    ++answered_;
    ++dels_;
    if (outcome.took > kSlow) ++slow_dels_;
    {
      const std::lock_guard lock(mutex_);
      longest_del_ = std::max(longest_del_, outcome.took);
    }
    if (outcome.exit_code == 0) return;
    ++repeated_dels_;
    if (CodeOf(outcome) != kTryAgain) Complain("DEL of " + id + " answers " + outcome.out + outcome.err);
  }
  Complain("DEL of " + id + " never succeeds");
}

void Churn::DeleteAll() {
  std::vector<std::thread> threads;
  for (std::vector<std::string>& own : of_caller_) {
    threads.emplace_back([this, &own] {
      for (const std::string& id : own) Delete(id);
      own.clear();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Churn::Complain(std::string text) {
  const std::lock_guard lock(mutex_);
  complaints_.push_back(std::move(text));
}

std::vector<std::string> Churn::Held() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> addresses;
  for (const auto& [address, id] : held_) addresses.push_back(address);
  return addresses;
}

std::vector<std::string> Churn::Complaints() const {
  const std::lock_guard lock(mutex_);
  return complaints_;
}

std::chrono::milliseconds Churn::longest_del() const {
  const std::lock_guard lock(mutex_);
  return longest_del_;
}

}  // namespace berth::e2e
