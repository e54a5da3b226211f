// SPDX-License-Identifier: Apache-2.0
// The C library's calls for threads, locks, time, random numbers and files, as the simulator executes them.
//
// A program that links this file calls these functions instead of the C library's, and so do libstdc++ and other shared
// libraries: the dynamic linker prefers a program's functions. So std::mutex, std::condition_variable, std::jthread,
// std::chrono's clocks, std::this_thread::sleep_for and std::random_device are simulated, and the code under test does
// not know. Outside of fibers time is the real time, and every lock is free.
//
// Not simulated, and not used by the code under test: read-write locks, sockets, epoll.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <ctime>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include "base/check.h"
#include "sim/files.h"
#include "sim/scheduler.h"

// The C library determines the names and parameters of these functions, and the members of a mutex.
// NOLINTBEGIN(cppcoreguidelines-pro-type-vararg,cppcoreguidelines-pro-bounds-array-to-pointer-decay)
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming,misc-const-correctness)
// NOLINTBEGIN(performance-no-int-to-ptr,misc-non-copyable-objects)

namespace berth::sim {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

template <typename Function>
Function* Real(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  BERTH_CHECK(found != nullptr);
  return found;
}

timespec ToTimespec(Nanos time) {
  return {.tv_sec = time.count() / kNanosPerSecond, .tv_nsec = time.count() % kNanosPerSecond};
}
Nanos ToNanos(const timespec& time) { return std::chrono::seconds(time.tv_sec) + Nanos(time.tv_nsec); }

// The machines were booted this long before the simulation begins.
constexpr Nanos kBootedBefore = std::chrono::hours(1000);

Nanos ClockNow(clockid_t clock) {
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    const auto& error = CurrentProcess()->clock_error;
    return Calendar() + (error ? *error : Nanos(0));
  }
  return Now() + kBootedBefore + (clock == CLOCK_BOOTTIME ? TimeSuspended() : Nanos(0));
}
Nanos SinceBegin(clockid_t clock, const timespec& time) { return ToNanos(time) - (ClockNow(clock) - Now()); }

// The simulator uses these members of a pthread_mutex_t: __kind as its initializer left it, the depth (__count), and
// __list as a place for the owner.
struct Mutex {
  explicit Mutex(pthread_mutex_t* lock) : lock_(*lock) {}

  [[nodiscard]] bool is_recursive() const { return lock_.__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP; }
  [[nodiscard]] Fiber* owner() const { return reinterpret_cast<Fiber*>(lock_.__data.__list.__prev); }
  // The mutex has no owner, or the owner was killed.
  [[nodiscard]] bool is_free() const { return lock_.__data.__lock == 0 || (owner() != nullptr && IsDead(owner())); }
  void Take() {
    lock_.__data.__lock = 1;
    lock_.__data.__count = 1;
    lock_.__data.__list.__prev = reinterpret_cast<__pthread_internal_list*>(Self());
    CountLocks(Self(), 1);
  }
  void TakeAgain() { ++lock_.__data.__count; }
  [[nodiscard]] bool Release() {
    if (--lock_.__data.__count > 0) return false;
    CountLocks(owner(), -1);
    lock_.__data.__lock = 0;
    lock_.__data.__list.__prev = nullptr;
    return true;
  }
  [[nodiscard]] bool is_held() const { return lock_.__data.__lock != 0; }

 private:
  pthread_mutex_t& lock_;
};

void Lock(pthread_mutex_t* address) {
  Mutex mutex(address);
  if (mutex.is_held() && InFiber() && mutex.owner() == Self()) {
    BERTH_CHECK(mutex.is_recursive());
    mutex.TakeAgain();
    return;
  }
  MayYield();
  while (!mutex.is_free()) {
    BERTH_CHECK(InFiber());
    static_cast<void>(AwaitAt(address));
  }
  mutex.Take();
}

void Unlock(pthread_mutex_t* address) {
  if (Mutex(address).Release()) WakeAllAt(address);
}

// Returns false if nothing has woken the fiber before `until`.
bool AwaitCondition(const void* condition, pthread_mutex_t* mutex, Nanos until) {
  const bool is_woken = AwaitAt(condition, until, [mutex] { Unlock(mutex); });
  Lock(mutex);
  return is_woken;
}

void SleepUntil(Nanos until) {
  while (Now() < until) static_cast<void>(Park(until));
}

int Opened(int descriptor) {
  if (descriptor < 0 || !InFiber()) return descriptor;
  CurrentProcess()->descriptors.push_back(descriptor);
  return descriptor;
}

// Waits for a file's lock, until the process's alarm ends the wait.
int AwaitFileLock(int descriptor, int operation) {
  const Nanos alarm = CurrentProcess()->alarm_every;
  const Nanos end = alarm > Nanos::zero() ? Now() + alarm : Nanos::max();
  while (TryLockFile(descriptor, operation) != 0) {
    if (!InFiber() || (operation & LOCK_NB) != 0) return -1;
    if (AwaitAt(LockOfFile(descriptor), end)) continue;
    errno = EINTR;
    return -1;
  }
  return 0;
}

// After a change of a file other fibers may run, and the process may be killed.
template <typename Result>
Result Changed(Result result) {
  const int error = errno;
  MayYield();
  errno = error;
  return result;
}

}  // namespace

}  // namespace berth::sim

namespace sim = berth::sim;

extern "C" {

// --- Threads --------------------------------------------------------------------------------------------------------

int pthread_create(pthread_t* thread, const pthread_attr_t* /*attributes*/, void* (*start)(void*), void* argument) {
  BERTH_CHECK(sim::InFiber());  // no real thread may run beside a simulation
  sim::Fiber* const fiber = sim::SpawnThread([start, argument] { start(argument); });
  *thread = reinterpret_cast<pthread_t>(fiber);
  sim::MayYield();
  return 0;
}
int pthread_join(pthread_t thread, void** result) {
  sim::Join(reinterpret_cast<sim::Fiber*>(thread));
  if (result != nullptr) *result = nullptr;
  return 0;
}
int pthread_detach(pthread_t /*thread*/) { return 0; }
pthread_t pthread_self() noexcept { return reinterpret_cast<pthread_t>(sim::Self()); }
int sched_yield() noexcept {
  sim::Yield();
  return 0;
}

// --- Mutexes and conditions -----------------------------------------------------------------------------------------

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  sim::Lock(mutex);
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* address) noexcept {
  sim::Mutex mutex(address);
  if (mutex.is_held() && sim::InFiber() && mutex.owner() == sim::Self() && mutex.is_recursive()) {
    mutex.TakeAgain();
    return 0;
  }
  if (!mutex.is_free()) return EBUSY;
  mutex.Take();
  return 0;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  sim::Unlock(mutex);
  return 0;
}
int pthread_mutex_destroy(pthread_mutex_t* /*mutex*/) noexcept { return 0; }

int pthread_cond_init(pthread_cond_t* /*condition*/, const pthread_condattr_t* /*attributes*/) noexcept { return 0; }
int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  sim::ForgetWaitersAt(condition);
  return 0;
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static_cast<void>(sim::AwaitCondition(condition, mutex, sim::Nanos::max()));
  return 0;
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  return sim::AwaitCondition(condition, mutex, sim::SinceBegin(clock, *until)) ? 0 : ETIMEDOUT;
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, until);
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  sim::WakeAllAt(condition);
  return 0;
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  sim::WakeOneAt(condition);
  return 0;
}

// Used by std::call_once. The states are those of the C library, because a control may have been run by the C library.
int pthread_once(pthread_once_t* control, void (*run)()) {
  constexpr int kRuns = 1;
  constexpr int kDone = 2;
  while ((*control & kDone) == 0) {
    if ((*control & kRuns) != 0) {
      BERTH_CHECK(sim::InFiber());
      static_cast<void>(sim::AwaitAt(control));
      continue;
    }
    *control = kRuns;
    run();
    *control = kDone;
    sim::WakeAllAt(control);
  }
  return 0;
}

// Used by std::atomic::wait and by types that need it: std::stop_callback waits for a callback that runs.
long syscall(long number, ...) noexcept {
  static auto* const kReal = sim::Real<long(long, ...)>("syscall");
  std::array<long, 6> argument{};
  va_list arguments;
  va_start(arguments, number);
  for (long& one : argument) one = va_arg(arguments, long);
  va_end(arguments);
  constexpr long kCommand = 127;
  if (number == SYS_getdents64 && sim::IsSimulated(static_cast<int>(argument[0]))) {
    return sim::ReadNames(
        static_cast<int>(argument[0]), reinterpret_cast<void*>(argument[1]), static_cast<std::size_t>(argument[2]));
  }
  if (number != SYS_futex || !sim::InFiber()) {
    return kReal(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
  }
  const auto* const word = reinterpret_cast<const int*>(argument[0]);
  if ((argument[1] & kCommand) == FUTEX_WAKE) {
    sim::WakeAllAt(word);
    return argument[2];
  }
  BERTH_CHECK((argument[1] & kCommand) == FUTEX_WAIT);
  if (*word != static_cast<int>(argument[2])) {
    errno = EAGAIN;
    return -1;
  }
  static_cast<void>(sim::AwaitAt(word));
  return 0;
}

// --- Time -----------------------------------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const kReal = sim::Real<int(clockid_t, timespec*)>("clock_gettime");
  if (!sim::InFiber()) return kReal(clock, time);
  *time = sim::ToTimespec(sim::ClockNow(clock));
  return 0;
}
time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(timeval* out, void* /*zone*/) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *out = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  static auto* const kReal = sim::Real<int(clockid_t, int, const timespec*, timespec*)>("clock_nanosleep");
  if (!sim::InFiber()) return kReal(clock, flags, time, left);
  sim::SleepUntil((flags & TIMER_ABSTIME) != 0 ? sim::SinceBegin(clock, *time) : sim::Now() + sim::ToNanos(*time));
  return 0;
}
int nanosleep(const timespec* time, timespec* left) { return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left); }

// --- Files: those below /sim are simulated; the open descriptors of all files are recorded --------------------------

int open(const char* path, int flags, ...) {
  static auto* const kReal = sim::Real<int(const char*, int, ...)>("open");
  if (sim::IsSimulated(path)) return sim::Opened(sim::OpenFile(AT_FDCWD, path, flags));
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : mode_t{0};
  va_end(arguments);
  return sim::Opened(kReal(path, flags, mode));
}
int __open_2(const char* path, int flags) { return open(path, flags); }
int openat(int folder, const char* path, int flags, ...) {
  static auto* const kReal = sim::Real<int(int, const char*, int, ...)>("openat");
  if (sim::IsSimulated(folder) || sim::IsSimulated(path)) return sim::Opened(sim::OpenFile(folder, path, flags));
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : mode_t{0};
  va_end(arguments);
  return sim::Opened(kReal(folder, path, flags, mode));
}
int __openat_2(int folder, const char* path, int flags) { return openat(folder, path, flags); }
int close(int descriptor) {
  static auto* const kReal = sim::Real<int(int)>("close");
  std::erase(sim::CurrentProcess()->descriptors, descriptor);
  return sim::IsSimulated(descriptor) ? sim::CloseFile(descriptor) : kReal(descriptor);
}
int closedir(DIR* folder) {
  static auto* const kReal = sim::Real<int(DIR*)>("closedir");
  std::erase(sim::CurrentProcess()->descriptors, dirfd(folder));
  return kReal(folder);
}
ssize_t read(int descriptor, void* buffer, size_t count) {
  static auto* const kReal = sim::Real<ssize_t(int, void*, size_t)>("read");
  return sim::IsSimulated(descriptor) ? sim::ReadFile(descriptor, buffer, count) : kReal(descriptor, buffer, count);
}
ssize_t __read_chk(int descriptor, void* buffer, size_t count, size_t /*room*/) {
  return read(descriptor, buffer, count);
}
ssize_t write(int descriptor, const void* bytes, size_t count) {
  static auto* const kReal = sim::Real<ssize_t(int, const void*, size_t)>("write");
  if (!sim::IsSimulated(descriptor)) return kReal(descriptor, bytes, count);
  return sim::Changed(sim::WriteFile(descriptor, bytes, count));
}
int ftruncate(int descriptor, off_t bytes) noexcept {
  static auto* const kReal = sim::Real<int(int, off_t)>("ftruncate");
  if (!sim::IsSimulated(descriptor)) return kReal(descriptor, bytes);
  return sim::Changed(sim::TruncateFile(descriptor, bytes));
}
int fsync(int descriptor) {
  static auto* const kReal = sim::Real<int(int)>("fsync");
  if (!sim::IsSimulated(descriptor)) return kReal(descriptor);
  return sim::Changed(sim::SyncFile(descriptor));
}
int fdatasync(int descriptor) { return fsync(descriptor); }
int fstat(int descriptor, struct stat* facts) noexcept {
  static auto* const kReal = sim::Real<int(int, struct stat*)>("fstat");
  return sim::IsSimulated(descriptor) ? sim::StatFile(descriptor, facts) : kReal(descriptor, facts);
}
int futimens(int descriptor, const timespec* times) noexcept {
  static auto* const kReal = sim::Real<int(int, const timespec*)>("futimens");
  if (!sim::IsSimulated(descriptor)) return kReal(descriptor, times);
  sim::SetFileTime(descriptor, times[1]);
  return 0;
}
int access(const char* path, int mode) noexcept {
  static auto* const kReal = sim::Real<int(const char*, int)>("access");
  if (!sim::IsSimulated(path)) return kReal(path, mode);
  if (sim::IsFile(path)) return 0;
  errno = ENOENT;
  return -1;
}
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  static auto* const kReal = sim::Real<int(int, const char*, mode_t)>("mkdirat");
  if (!sim::IsSimulated(folder) && !sim::IsSimulated(path)) return kReal(folder, path, mode);
  return sim::Changed(sim::MakeFolder(folder, path));
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }
int renameat(int from, const char* path, int to, const char* new_path) noexcept {
  static auto* const kReal = sim::Real<int(int, const char*, int, const char*)>("renameat");
  if (!sim::IsSimulated(from) && !sim::IsSimulated(path)) return kReal(from, path, to, new_path);
  return sim::Changed(sim::RenameFile(from, path, to, new_path));
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const kReal = sim::Real<int(int, const char*, int)>("unlinkat");
  if (!sim::IsSimulated(folder) && !sim::IsSimulated(path)) return kReal(folder, path, flags);
  return sim::Changed(sim::RemoveFile(folder, path));
}
int flock(int descriptor, int operation) noexcept {
  static auto* const kReal = sim::Real<int(int, int)>("flock");
  if (!sim::IsSimulated(descriptor)) return kReal(descriptor, operation);
  sim::MayYield();
  return sim::AwaitFileLock(descriptor, operation);
}
// Used for alarms only. A simulated process has an alarm of its own.
int setitimer(__itimer_which_t which, const itimerval* timer, itimerval* before) noexcept {
  static auto* const kReal = sim::Real<int(__itimer_which_t, const itimerval*, itimerval*)>("setitimer");
  if (!sim::InFiber()) return kReal(which, timer, before);
  sim::CurrentProcess()->alarm_every =
      std::chrono::seconds(timer->it_interval.tv_sec) + std::chrono::microseconds(timer->it_interval.tv_usec);
  return 0;
}
int sigaction(int number, const struct sigaction* action, struct sigaction* before) noexcept {
  static auto* const kReal = sim::Real<int(int, const struct sigaction*, struct sigaction*)>("sigaction");
  return sim::InFiber() ? 0 : kReal(number, action, before);
}

}  // extern "C"

// NOLINTEND(performance-no-int-to-ptr,misc-non-copyable-objects)
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming,misc-const-correctness)
// NOLINTEND(cppcoreguidelines-pro-type-vararg,cppcoreguidelines-pro-bounds-array-to-pointer-decay)

// --- Random numbers -------------------------------------------------------------------------------------------------

extern "C" ssize_t getrandom(void* buffer, size_t length, unsigned flags) {
  static auto* const kReal = berth::sim::Real<ssize_t(void*, size_t, unsigned)>("getrandom");
  if (!berth::sim::InFiber()) return kReal(buffer, length, flags);
  auto* const bytes = static_cast<unsigned char*>(buffer);
  std::generate_n(bytes, length, [] { return static_cast<unsigned char>(berth::sim::Random()); });
  return static_cast<ssize_t>(length);
}

std::random_device::result_type std::random_device::_M_getval() {
  return static_cast<std::random_device::result_type>(berth::sim::Random());
}
