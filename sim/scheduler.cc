// SPDX-License-Identifier: Apache-2.0
// The scheduler, on the fibers of Boost.Context.
#include "sim/scheduler.h"

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <execinfo.h>
#include <queue>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace berth::sim {

struct Fiber {
  std::uint64_t id = 0;
  ProcessPointer process;
  std::function<void()> body;
  boost::context::fiber context;
  bool is_runnable = false;
  bool is_done = false;
  bool timed_out = false;
  int locks = 0;            // locks that the fiber holds
  std::uint64_t parks = 0;  // number of waits, so that an old timer does not end a later wait
  std::vector<Fiber*> joiners;
  // The fiber's exceptions, which the C++ runtime keeps per operating-system thread.
  std::array<std::uintptr_t, 2> exceptions{};
  std::vector<void*> stack;  // where the fiber waits, after RememberStacks
};

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10U;
constexpr std::size_t kPageBytes = 4096;
// The virtual time of a switch. Without it, no time would pass in code that polls.
constexpr Nanos kSwitchTime{1000};
constexpr std::uint64_t kSwitchesMax = 30'000'000;
// In one of so many steps, a timer that is due within kBusyMax fires although a fiber could run, as if the machine had
// been busy until then.
constexpr std::uint64_t kBusyOneIn = 64;
constexpr Nanos kBusyMax = std::chrono::milliseconds(100);
constexpr Nanos kPauseMax = std::chrono::milliseconds(50);
constexpr std::uint64_t kHashStart = 14695981039346656037U;
constexpr std::uint64_t kHashFactor = 1099511628211U;

// Stacks are reused. The page below each stack is protected, so an overflow crashes at once.
struct Stacks {
  std::vector<char*> free;

  char* Take() {
    if (!free.empty()) {
      char* const stack = free.back();
      free.pop_back();
      return stack;
    }
    void* const base = mmap(
        nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BERTH_CHECK(base != MAP_FAILED);
    BERTH_CHECK(mprotect(base, kPageBytes, PROT_NONE) == 0);
    return static_cast<char*>(base) + kPageBytes;
  }
};

struct Timer {
  Nanos when;
  std::uint64_t order;
  Fiber* fiber;
  std::uint64_t park;
  friend bool operator<(const Timer& a, const Timer& b) {
    return std::pair(a.when, a.order) > std::pair(b.when, b.order);
  }
};

struct State {
  std::uint64_t random = 0;  // Begin seeds it
  Nanos now{0};
  Nanos suspended{0};
  std::vector<Fiber*> runnable;
  std::vector<Fiber*> frozen;  // fibers that could run if their process were not stopped
  std::priority_queue<Timer> timers;
  // Fibers that wait for a lock or a condition, by its address, in the order in which they began to wait.
  std::unordered_map<const void*, std::vector<Fiber*>> waiters;
  Fiber* current = nullptr;
  boost::context::fiber back;  // to the scheduler
  std::array<std::uintptr_t, 2> exceptions{};
  Stacks stacks;
  std::uint64_t yield_one_in = 1;
  std::uint64_t fibers = 0;
  std::uint64_t timers_made = 0;
  std::uint64_t switches = 0;
  std::uint64_t hash = kHashStart;
  bool is_stopped = false;
  bool has_chance = true;
  bool remembers_stacks = false;
  std::vector<const Fiber*> all;  // if stacks are remembered
  ProcessPointer outside = std::make_shared<Process>("simulation");
};

// The first caller of The makes the state, possibly before main, and nothing destroys it. A local static would check
// its guard at each switch.
constinit State* the_state = nullptr;

constinit bool is_own_work = false;

[[gnu::noinline]] void MakeState() { the_state = new State; }  // NOLINT(cppcoreguidelines-owning-memory)

[[gnu::always_inline]] inline State& The() {
  if (the_state == nullptr) [[unlikely]] {
    MakeState();
  }
  return *the_state;
}

struct StackAllocator {
  boost::context::stack_context allocate() {
    char* const stack = The().stacks.Take();
    boost::context::stack_context context;
    context.size = kStackBytes;
    context.sp = stack + kStackBytes;
    return context;
  }
  void deallocate(boost::context::stack_context& context) noexcept {
    The().stacks.free.push_back(static_cast<char*>(context.sp) - kStackBytes);
  }
};

void MixIn(std::uint64_t value) { The().hash = (The().hash ^ value) * kHashFactor; }

void SwapExceptions(std::array<std::uintptr_t, 2>& out, const std::array<std::uintptr_t, 2>& in) {
  auto* const globals = reinterpret_cast<std::uintptr_t*>(abi::__cxa_get_globals());
  out = {globals[0], globals[1]};
  globals[0] = in[0];
  globals[1] = in[1];
}

void MakeRunnable(Fiber* fiber) {
  if (fiber->is_runnable || fiber->is_done || fiber->process->is_dead) return;
  fiber->is_runnable = true;
  const OwnWork own;
  The().runnable.push_back(fiber);
}

void ToScheduler() { The().back = std::move(The().back).resume(); }

void RunBody(Fiber& fiber) {
  try {
    fiber.body();
  } catch (const std::exception& thrown) {
    std::fprintf(stderr, "a thread of %s threw: %s\n", fiber.process->name.c_str(), thrown.what());
    std::abort();
  }
  fiber.body = nullptr;
  fiber.is_done = true;
  for (Fiber* const joiner : fiber.joiners) Unpark(joiner);
}

Fiber* Make(const ProcessPointer& process, std::function<void()> body) {
  // Fibers are never deleted: a thread may be joined late, and the objects on a killed fiber's stack stay.
  Fiber* const fiber = [] {
    const OwnWork own;  // a fiber is not memory of the program under test
    return new Fiber;   // NOLINT(cppcoreguidelines-owning-memory)
  }();
  fiber->id = ++The().fibers;
  if (The().remembers_stacks) The().all.push_back(fiber);
  fiber->process = process;
  fiber->body = std::move(body);
  fiber->context =
      boost::context::fiber(std::allocator_arg, StackAllocator(), [fiber](boost::context::fiber&& scheduler) {
        The().back = std::move(scheduler);
        RunBody(*fiber);
        return std::move(The().back);
      });
  MakeRunnable(fiber);
  return fiber;
}

void Resume(Fiber& fiber) {
  State& the = The();
  the.current = &fiber;
  the.now += kSwitchTime;
  ++the.switches;
  MixIn(fiber.id);
  SwapExceptions(the.exceptions, fiber.exceptions);
  fiber.context = std::move(fiber.context).resume();
  SwapExceptions(fiber.exceptions, the.exceptions);
  the.current = nullptr;
}

void Fire() {
  State& the = The();
  const Timer timer = the.timers.top();
  the.timers.pop();
  the.now = std::max(the.now, timer.when);
  if (timer.fiber->is_done || timer.fiber->parks != timer.park) return;
  ++timer.fiber->parks;
  timer.fiber->timed_out = true;
  MakeRunnable(timer.fiber);
}

Fiber* PickRunnable() {
  State& the = The();
  if (!the.has_chance) {
    Fiber* const first = the.runnable.front();
    the.runnable.erase(the.runnable.begin());
    first->is_runnable = false;
    return first;
  }
  const std::size_t at = Random() % the.runnable.size();
  Fiber* const fiber = the.runnable[at];
  the.runnable[at] = the.runnable.back();
  the.runnable.pop_back();
  fiber->is_runnable = false;
  return fiber;
}

}  // namespace

void Begin(std::uint64_t seed) {
  State& the = The();
  BERTH_CHECK(the.switches == 0);
  the.random = seed;
  // libstdc++ reads this variable. If it were 1, libstdc++ would not notify other threads.
  __libc_single_threaded = 0;
  // Some histories switch at every point where they may, others seldom: each finds defects that the other does not.
  constexpr std::array<std::uint64_t, 4> kYields{1, 1, 4, 16};
  the.yield_one_in = kYields.at(Below(kYields.size()));
}

void BeginWithoutChance() {
  Begin(/*seed=*/0);
  The().has_chance = false;
}

void Spawn(const ProcessPointer& process, std::function<void()> body) {
  static_cast<void>(Make(process, std::move(body)));
}

Ended Run(Nanos limit) {
  State& the = The();
  while (!the.is_stopped) {
    if (the.switches > kSwitchesMax) return Ended::kLivelock;
    if (the.now > limit) return Ended::kTimeOver;
    if (the.runnable.empty() && the.timers.empty()) return Ended::kStuck;
    const bool is_near = !the.timers.empty() && the.timers.top().when - the.now < kBusyMax;
    if (the.runnable.empty() || (is_near && Below(kBusyOneIn) == 0)) {
      Fire();
      continue;
    }
    Fiber* const fiber = PickRunnable();
    if (fiber->process->is_dead) continue;
    if (fiber->process->is_stopped && fiber->locks == 0) {
      // The fiber counts as runnable, so nothing makes it runnable a second time.
      fiber->is_runnable = true;
      the.frozen.push_back(fiber);
      continue;
    }
    Resume(*fiber);
  }
  return Ended::kStopped;
}

void Stop() { The().is_stopped = true; }

void Freeze(Process& process) { process.is_stopped = true; }

void Thaw(Process& process) {
  process.is_stopped = false;
  State& the = The();
  const OwnWork own;
  for (Fiber* const fiber : std::exchange(the.frozen, {})) {
    (fiber->process.get() == &process ? the.runnable : the.frozen).push_back(fiber);
  }
}

void Kill(Process& process) {
  process.is_dead = true;
  for (const int descriptor : std::exchange(process.descriptors, {})) close(descriptor);
}

const ProcessPointer& CurrentProcess() { return InFiber() ? Self()->process : The().outside; }

Nanos Now() { return The().now; }
Nanos TimeSuspended() { return The().suspended; }
void Suspend(Nanos time) { The().suspended += time; }
Nanos Calendar() {
  constexpr Nanos kStart = std::chrono::seconds(1'767'225'600);  // 2026-01-01
  return kStart + Now() + TimeSuspended();
}

// SplitMix64: all seeds are equally good, also consecutive ones.
std::uint64_t Random() {
  std::uint64_t mixed = The().random += 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}
std::uint64_t Below(std::uint64_t bound) { return The().has_chance ? Random() % bound : bound - 1; }

std::uint64_t Hash() { return The().hash; }
void Mark(std::string_view text) {
  for (const char c : text) MixIn(static_cast<unsigned char>(c));
}
std::uint64_t Switches() { return The().switches; }

OwnWork::OwnWork() { is_own_work = true; }
OwnWork::~OwnWork() { is_own_work = false; }
bool IsOwnWork() { return is_own_work; }
// The state may be null here: making the state allocates memory, and operator new calls InFiber.
bool InFiber() { return the_state != nullptr && the_state->current != nullptr; }
Fiber* Self() { return The().current; }
std::uint64_t IdOf(const Fiber* fiber) { return fiber->id; }
void CountLocks(Fiber* fiber, int more) {
  if (fiber != nullptr) fiber->locks += more;
}
bool IsDead(const Fiber* fiber) { return fiber->process->is_dead || fiber->is_done; }

void Yield() {
  if (!InFiber()) return;
  MakeRunnable(Self());
  ToScheduler();
}

void MayYield() {
  const std::uint64_t pauses_one_in = CurrentProcess()->pauses_one_in;
  if (pauses_one_in > 0 && Below(pauses_one_in) == 0) {
    static_cast<void>(Park(Now() + Nanos(Below(kPauseMax.count()))));
  }
  if (!The().has_chance) return;
  if (InFiber() && (The().yield_one_in == 1 || Below(The().yield_one_in) == 0)) Yield();
}

bool Park(Nanos until) {
  State& the = The();
  Fiber* const self = Self();
  BERTH_CHECK(self != nullptr);
  self->timed_out = false;
  if (the.remembers_stacks) {
    constexpr int kFramesMax = 32;
    self->stack.resize(kFramesMax);
    self->stack.resize(static_cast<std::size_t>(backtrace(self->stack.data(), kFramesMax)));
  }
  if (until != Nanos::max()) {
    const OwnWork own;
    the.timers.push({.when = until, .order = ++the.timers_made, .fiber = self, .park = self->parks});
  }
  ToScheduler();
  return !self->timed_out;
}

void Unpark(Fiber* fiber) {
  ++fiber->parks;
  fiber->timed_out = false;
  MakeRunnable(fiber);
}

bool AwaitAt(const void* address, Nanos until, const std::function<void()>& then) {
  Fiber* const self = Self();
  {
    const OwnWork own;
    The().waiters[address].push_back(self);
  }
  if (then) then();
  if (Park(until)) return true;
  const auto found = The().waiters.find(address);
  if (found == The().waiters.end()) return false;
  std::erase(found->second, self);
  if (found->second.empty()) The().waiters.erase(found);
  return false;
}

void WakeAllAt(const void* address) {
  const auto found = The().waiters.find(address);
  if (found == The().waiters.end()) return;
  const auto woken = std::move(found->second);
  The().waiters.erase(found);
  for (Fiber* const fiber : woken) Unpark(fiber);
}

void WakeOneAt(const void* address) {
  const auto found = The().waiters.find(address);
  if (found == The().waiters.end()) return;
  auto& waiters = found->second;
  std::erase_if(waiters, IsDead);
  if (waiters.empty()) return;
  const auto at = The().has_chance ? static_cast<std::ptrdiff_t>(Below(waiters.size())) : 0;
  Fiber* const woken = waiters[static_cast<std::size_t>(at)];
  waiters.erase(waiters.begin() + at);
  Unpark(woken);
}

void ForgetWaitersAt(const void* address) { The().waiters.erase(address); }

void RememberStacks() { The().remembers_stacks = true; }

std::string WhoWaitsWhere() {
  std::string text;
  for (const Fiber* const fiber : The().all) {
    if (IsDead(fiber) || fiber->is_runnable) continue;
    text += "\n" + fiber->process->name + ", fiber " + std::to_string(fiber->id) + ":";
    char** const frames = backtrace_symbols(fiber->stack.data(), static_cast<int>(fiber->stack.size()));
    for (std::size_t i = 0; i < fiber->stack.size(); ++i) text += std::string("\n  ") + frames[i];
    std::free(static_cast<void*>(frames));  // NOLINT(cppcoreguidelines-no-malloc)
  }
  return text;
}

Fiber* SpawnThread(std::function<void()> body) { return Make(CurrentProcess(), std::move(body)); }

void Join(Fiber* fiber) {
  while (!fiber->is_done) {
    fiber->joiners.push_back(Self());
    static_cast<void>(Park());
  }
}

}  // namespace berth::sim
