// SPDX-License-Identifier: Apache-2.0
// For tests only: runs a short history in a child process, and returns the text that it wrote.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "sim/scheduler.h"

namespace berth::sim {

// The text that a history wrote, and how the history ended.
struct Written {
  std::string text;
  Ended ended = Ended::kStuck;
};

// Runs `body` in a child process, because a process can run one simulation only. Returns what `body` returned.
inline std::string InChild(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = body();
    const bool is_told = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    std::fflush(stdout);  // failures of expectations
    _exit(is_told && !::testing::Test::HasFailure() ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  ssize_t count = 0;
  while ((count = read(ends[0], part.data(), part.size())) > 0)
    text.append(part.data(), static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return text;
}

inline Written TellOf(std::uint64_t seed, const std::function<void(std::string& text)>& body,
                      Nanos limit = std::chrono::hours(1)) {
  std::string text = InChild([&] {
    std::string told;
    Begin(seed);
    Spawn(std::make_shared<Process>("main"), [&] {
      body(told);
      Stop();
    });
    const Ended ended = Run(limit);
    told.push_back(static_cast<char>(ended));
    return told;
  });
  if (text.empty()) return {};
  const auto ended = static_cast<Ended>(text.back());
  text.pop_back();
  return {.text = text, .ended = ended};
}

}  // namespace berth::sim
