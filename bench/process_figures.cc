// SPDX-License-Identifier: Apache-2.0
// /proc/<pid>/stat and statm, and getrusage.
#include "bench/process_figures.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace berth::bench {
namespace {

// Field `number`, counted from 1, of a file of one line. The second field is the program's name in brackets, which may
// contain any character.
long long ProcField(pid_t pid, const char* file, int number) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/" + file);
  std::string text;
  std::getline(stream, text);
  const std::size_t name_end = text.rfind(')');
  std::size_t at = name_end == std::string::npos ? 0 : name_end + 2;
  for (int field = name_end == std::string::npos ? 1 : 3; field < number && at < text.size(); ++field) {
    at = text.find(' ', at) + 1;
  }
  return at < text.size() ? std::strtoll(text.c_str() + at, nullptr, 10) : 0;
}

std::chrono::nanoseconds CpuIn(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

std::chrono::nanoseconds CpuOf(pid_t pid) {
  constexpr int kUserTicks = 14;  // user time; the next field is the kernel's time
  const long long ticks = ProcField(pid, "stat", kUserTicks) + ProcField(pid, "stat", kUserTicks + 1);
  return std::chrono::nanoseconds(std::chrono::seconds(ticks)) / sysconf(_SC_CLK_TCK);
}

std::size_t ResidentBytesOf(pid_t pid) {
  constexpr int kResidentPages = 2;
  return static_cast<std::size_t>(ProcField(pid, "statm", kResidentPages)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::chrono::nanoseconds OwnCpu() { return CpuIn(RUSAGE_SELF); }

std::chrono::nanoseconds ChildrenCpu() { return CpuIn(RUSAGE_CHILDREN); }

}  // namespace berth::bench
