// SPDX-License-Identifier: Apache-2.0
// Scheduler: runs the threads of all simulated processes as fibers of one real thread, under one seed, in virtual time.
//
// One fiber runs at a time. When a thread takes a lock, waits, sleeps or locks a file, the seed decides which fiber
// runs next. If all fibers wait, the clock jumps to the next timer. So the same seed always produces the same history.
//
// The code under test does not know the scheduler: libc.cc replaces the C library's calls for threads, locks, time and
// random numbers, which the types of std use. The object code under test is exactly the object code that is shipped.
//
// An operating-system process runs one simulation only: the memory of a killed simulated process stays until the
// operating-system process ends.
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

// A simulated process. A kill ends all its fibers at once, without unwinding, and closes its descriptors, which
// releases its file locks.
struct Process {
  explicit Process(std::string called) : name(std::move(called)) {}
  const std::string name;
  bool is_dead = false;
  bool is_stopped = false;  // by Freeze
  // At one of so many points where its threads may switch, a thread stops for up to 50 ms, as on a busy machine; 0:
  // never.
  std::uint64_t pauses_one_in = 0;
  std::vector<int> descriptors;  // those that open(2) and similar calls opened
  Nanos alarm_every{0};          // interval of setitimer(2); 0: none
  std::size_t bytes = 0;         // memory that its threads allocated with new and that is not freed yet
  // How far the wall clock of the process's machine is ahead of the right time; null: not at all. Processes of one
  // machine share it.
  std::shared_ptr<const Nanos> clock_error = nullptr;
};
using ProcessPointer = std::shared_ptr<Process>;
// Value of Process::pauses_one_in for a slow process. Most CNI calls take several locks.
inline constexpr std::uint64_t kPausesOneIn = 25;

// Begins the simulation of a seed. Before that, and outside of fibers, time is the real time.
void Begin(std::uint64_t seed);
// Like Begin, without random decisions, for scripts (script.h): the fiber that has waited longest runs next, a fiber
// runs until it waits, and Below returns `bound - 1`. So an event that needs a 0 from Below never happens. Random uses
// seed 0, because the programs under test need random numbers.
void BeginWithoutChance();

// Makes a fiber of the process. The fiber runs when its turn comes; if the process is dead, the fiber never runs.
void Spawn(const ProcessPointer& process, std::function<void()> body);

enum class Ended : std::uint8_t {
  kStopped,   // by Stop
  kStuck,     // no fiber can run, and no timer is left
  kTimeOver,  // the virtual time is over
  kLivelock,  // too many switches: the fibers only wake each other
};
// Runs the fibers, until the virtual time `limit` at the latest. Called outside of fibers.
[[nodiscard]] Ended Run(Nanos limit);
// Called by a fiber: Run returns as soon as the fiber waits.
void Stop();

void Kill(Process& process);
// Like SIGSTOP and SIGCONT: no thread of the process runs until Thaw, and all clocks go on. A thread that holds a lock
// goes on until it has released the lock, which may be a lock of a simulated API server.
void Freeze(Process& process);
void Thaw(Process& process);

// The process of the running fiber; outside of fibers, a process of the scheduler's own.
[[nodiscard]] const ProcessPointer& CurrentProcess();

// Virtual time since the simulation began.
[[nodiscard]] Nanos Now();
// Suspends all machines: wall clocks and the time since boot advance by `time`, and steady time does not.
void Suspend(Nanos time);
// The time of a right wall clock, since 1970.
[[nodiscard]] Nanos Calendar();

// Random numbers from the seed; those of Below are less than `bound`. Requires: bound > 0.
[[nodiscard]] std::uint64_t Random();
[[nodiscard]] std::uint64_t Below(std::uint64_t bound);

// The hash of all switches and of all texts that Mark got. Equal histories have equal hashes.
[[nodiscard]] std::uint64_t Hash();
void Mark(std::string_view text);
[[nodiscard]] std::uint64_t Switches();

// --- For files.cc, libc.cc and memory.cc ----------------------------------------------------------------------------

// While one OwnWork exists, allocated memory is the simulator's, and not the running process's. No other fiber may run
// meanwhile.
class OwnWork {
 public:
  OwnWork();
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;
  ~OwnWork();
};
[[nodiscard]] bool IsOwnWork();

// Whether a fiber runs. Outside of fibers nothing can wait.
[[nodiscard]] bool InFiber();
[[nodiscard]] Fiber* Self();
[[nodiscard]] std::uint64_t IdOf(const Fiber* fiber);
// At some of its calls, other fibers run before it returns.
void MayYield();
void Yield();
// Waits until Unpark or until the time `until`. Nanos::max(): no limit. False: the time came first.
[[nodiscard]] bool Park(Nanos until = Nanos::max());
void Unpark(Fiber* fiber);
// Waits until the fibers that wait at the address are woken. `then` is called as soon as this fiber counts as one of
// them. False: the time `until` came first.
[[nodiscard]] bool AwaitAt(const void* address, Nanos until = Nanos::max(), const std::function<void()>& then = {});
void WakeAllAt(const void* address);
// Wakes a random one of the fibers that wait there.
void WakeOneAt(const void* address);
void ForgetWaitersAt(const void* address);
[[nodiscard]] bool IsDead(const Fiber* fiber);
// Called by libc.cc: the fiber holds `more` more locks than before.
void CountLocks(Fiber* fiber, int more);
[[nodiscard]] Nanos TimeSuspended();
// From now on the scheduler records where each fiber waits, which is slow.
void RememberStacks();
// Text for a person: where the fibers of living processes wait.
[[nodiscard]] std::string WhoWaitsWhere();
// Makes and joins threads of the current process, for pthread_create and pthread_join.
[[nodiscard]] Fiber* SpawnThread(std::function<void()> body);
void Join(Fiber* fiber);

}  // namespace berth::sim
