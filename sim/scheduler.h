// SPDX-License-Identifier: Apache-2.0
// Scheduler: many processes and their threads, as fibers of one thread, under one seed, in virtual time.
//
// One fiber runs at a time. Where a thread would meet others (a lock, a wait, a sleep, a lock of a file), the seed
// picks who runs next; where all wait, the clock jumps to the next timer. So a seed is a history, and the same seed is
// the same history again.
//
// The code under test needs nothing for that: libc.cc takes the place of the C library's calls for threads, locks, time
// and chance, and std's types end there. It is the very object code that is shipped.
//
// One simulation per operating-system process: what a killed process leaves in memory stays until that ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace berth::sim {

using Nanos = std::chrono::nanoseconds;

struct Fiber;

// What a kill ends: all its fibers at once, without unwinding, and its descriptors, so that its locks go.
struct Process {
  explicit Process(std::string called) : name(std::move(called)) {}
  const std::string name;
  bool is_dead = false;
  bool is_stopped = false;  // by Freeze
  // At so few of their chances its threads are stopped for some milliseconds, as by a busy machine; 0: at none.
  std::uint64_t pauses_one_in = 0;
  std::vector<int> descriptors;  // open ones, by open(2) and its like
  Nanos alarm_every{0};          // 0: never
  std::size_t bytes = 0;         // by new, and not freed yet, by whomever
  // The wall clock of the process's machine is ahead of the right one by so much; null: by nothing. Processes of a
  // machine share it.
  std::shared_ptr<const Nanos> clock_error = nullptr;
};
using ProcessPointer = std::shared_ptr<Process>;
// Of one that is slow: most calls take a lock some times.
inline constexpr std::uint64_t kPausesOneIn = 25;

// Begins the simulation of a seed. Until then, and outside of fibers, the C library's calls are the real ones.
void Begin(std::uint64_t seed);
// The same without chance, for scripts (script.h): the fiber that has waited longest runs next, a fiber runs until it
// waits, and Below says `bound - 1`. So what happens once in so many times, where Below says 0, never happens. Random
// is that of seed 0: the programs under test still have random numbers.
void BeginWithoutChance();

// A fiber of that process, which runs when its turn comes. Of a dead process: never.
void Spawn(const ProcessPointer& process, std::function<void()> body);

enum class Ended : std::uint8_t {
  kStopped,   // by Stop
  kStuck,     // nobody can run, and no timer is left
  kTimeOver,  // the virtual time is over
  kLivelock,  // the fibers only wake each other
};
// Runs fibers, from outside of them.
[[nodiscard]] Ended Run(Nanos limit);
// Run returns at once; for fibers.
void Stop();

void Kill(Process& process);
// As SIGSTOP and SIGCONT: no thread of the process runs until Thaw, and all clocks go on. A thread that holds a lock
// goes on until it has released the lock, which may be a lock of a simulated API server.
void Freeze(Process& process);
void Thaw(Process& process);

// Of the running fiber; the scheduler's own outside of fibers.
[[nodiscard]] const ProcessPointer& CurrentProcess();

// Since the simulation began.
[[nodiscard]] Nanos Now();
// All machines are suspended: wall clocks and the time since boot go on meanwhile, steady time does not.
void Suspend(Nanos time);
// The time of a right wall clock, since 1970.
[[nodiscard]] Nanos Calendar();

// From the seed. Requires: bound > 0.
[[nodiscard]] std::uint64_t Random();
[[nodiscard]] std::uint64_t Below(std::uint64_t bound);

// Every switch, every piece of Mark: equal for equal histories.
[[nodiscard]] std::uint64_t Hash();
void Mark(std::string_view text);
[[nodiscard]] std::uint64_t Switches();

// --- For libc.cc and memory.cc --------------------------------------------------------------------------------------

// What is allocated now is the scheduler's, and not the running process's.
[[nodiscard]] bool IsOwnWork();

// Whether a fiber runs; if not, there is nobody to wait for.
[[nodiscard]] bool InFiber();
[[nodiscard]] Fiber* Self();
[[nodiscard]] std::uint64_t IdOf(const Fiber* fiber);
// Others may run; sometimes they do.
void MayYield();
void Yield();
// Until Unpark; false: the time came first. Nanos::max(): no limit.
[[nodiscard]] bool Park(Nanos until = Nanos::max());
void Unpark(Fiber* fiber);
// Waits until somebody wakes those who wait at that address. `then` is called when it counts as one of them. False: the
// time came first.
[[nodiscard]] bool AwaitAt(const void* address, Nanos until = Nanos::max(), const std::function<void()>& then = {});
void WakeAllAt(const void* address);
// Any of them.
void WakeOneAt(const void* address);
void ForgetWaitersAt(const void* address);
[[nodiscard]] bool IsDead(const Fiber* fiber);
// Told by whoever simulates locks: the fiber holds so many more of them.
void CountLocks(Fiber* fiber, int more);
[[nodiscard]] Nanos TimeSuspended();
// From now on each fiber remembers where it waits; slow.
void RememberStacks();
// Where the fibers of living processes wait, for a person.
[[nodiscard]] std::string WhoWaitsWhere();
// A thread of the current process, for pthread_create and pthread_join.
[[nodiscard]] Fiber* SpawnThread(std::function<void()> body);
void Join(Fiber* fiber);

}  // namespace berth::sim
