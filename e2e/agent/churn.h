// SPDX-License-Identifier: Apache-2.0
// Churn: parallel callers that add and delete containers as a runtime does, and a ledger of the answered addresses.
//
// After an ADD that failed, the caller sends DELs until one succeeds. An address is in the ledger from the answer of
// its ADD until its DEL begins. If an ADD gets an address that is in the ledger, the address was given twice.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cni/testing/plugin_process.h"

namespace berth::e2e {

using cni_testing::PluginCall;

class Churn {
 public:
  // Returns the call of `verb` for container `id`; `turn` counts the calls, from 0. Any thread calls it.
  using MakeCall = std::function<PluginCall(const std::string& verb, const std::string& id, int turn)>;

  Churn(MakeCall make_call, int callers);
  // Waits for the callers.
  ~Churn();
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  // Starts the callers. They end once `calls` calls are answered and MayEnd was called.
  void Start(int calls);
  void MayEnd() { may_end_ = true; }
  void Join();
  // Waits until `count` calls are answered since Start.
  void AwaitCalls(int count) const;
  // Deletes every container that has an address.
  void DeleteAll();

  // The addresses in the ledger, in order. Requires: no callers run.
  [[nodiscard]] std::vector<std::string> Held() const;
  // The errors that the callers saw, as text.
  [[nodiscard]] std::vector<std::string> Complaints() const;
  [[nodiscard]] int answered() const { return answered_; }
  [[nodiscard]] int added() const { return added_; }
  [[nodiscard]] int failed_adds() const { return failed_adds_; }
  [[nodiscard]] int repeated_dels() const { return repeated_dels_; }
  // Number of DELs that took longer than 1 s.
  [[nodiscard]] int slow_dels() const { return slow_dels_; }
  [[nodiscard]] int dels() const { return dels_; }
  [[nodiscard]] std::chrono::milliseconds longest_del() const;

 private:
  void RunCaller(int number);
  // False: the ADD got no address, and a DEL for it succeeded.
  bool Add(const std::string& id);
  void Delete(const std::string& id);
  void Complain(std::string text);

  const MakeCall make_call_;
  const int callers_;
  std::vector<std::thread> threads_;
  std::atomic<bool> may_end_ = false;
  std::atomic<int> wanted_ = 0;
  std::atomic<int> answered_ = 0;
  std::atomic<int> turns_ = 0;
  std::atomic<int> added_ = 0;
  std::atomic<int> failed_adds_ = 0;
  std::atomic<int> repeated_dels_ = 0;
  std::atomic<int> containers_ = 0;
  std::atomic<int> dels_ = 0;
  std::atomic<int> slow_dels_ = 0;

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, std::string> held_;  // container by address
  std::vector<std::vector<std::string>> of_caller_;
  std::vector<std::string> complaints_;
  std::chrono::milliseconds longest_del_{0};
};

}  // namespace berth::e2e
