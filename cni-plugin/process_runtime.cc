// SPDX-License-Identifier: Apache-2.0
// The call's clock, random numbers from the kernel's seed, and a check of the parent process.
#include "cni-plugin/process_runtime.h"

#include <sys/random.h>
#include <thread>
#include <unistd.h>

namespace berth::cni_plugin {

namespace {

std::uint64_t Seed() {
  std::uint64_t seed = 0;
  // If the kernel has no random numbers yet (early in the boot), make the seed from the process ID and the time, so
  // that the seeds of two processes differ.
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(seed))) {
    seed = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
           (static_cast<std::uint64_t>(getpid()) << 32U);
  }
  return seed;
}

}  // namespace

ProcessRuntime::ProcessRuntime(std::chrono::milliseconds limit, int parent, k8sclient::Clock& clock)
    : limit_(limit),
      last_start_(std::chrono::steady_clock::now() + limit * 4 / 5),
      end_(std::chrono::steady_clock::now() + limit),
      parent_(parent),
      clock_(clock),
      random_(Seed()) {}

std::int64_t ProcessRuntime::UnixMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow().time_since_epoch()).count();
}

ipam::Uint128 ProcessRuntime::Random(ipam::Uint128 bound) {
  // The bias of the remainder is at most bound / 2^128, which is negligible.
  return ((ipam::Uint128{random_()} << 64U) | random_()) % bound;
}

bool ProcessRuntime::Wait(std::chrono::milliseconds duration) {
  if (std::chrono::steady_clock::now() + duration > last_start_) return false;
  std::this_thread::sleep_for(duration);
  return true;
}

Expected<void> ProcessRuntime::MayGoOn() {
  if (std::chrono::steady_clock::now() >= last_start_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit_).count();
    return Fail(ErrorCode::kTimeout,
                "the time limit ipam.timeoutSeconds has passed (" + std::to_string(seconds) + ")",
                "the runtime tries the call again; is the API server slow, or do many programs write the same block?");
  }
  // If the parent has died, this process has another parent by now.
  if (parent_ != 0 && getppid() != parent_) {
    return Fail(ErrorCode::kTimeout, "the caller has ended, so nobody waits for an address any more");
  }
  return {};
}

}  // namespace berth::cni_plugin
