// SPDX-License-Identifier: Apache-2.0
// The standard library's types under the scheduler. Each simulation is a child process of its own.
#include "sim/scheduler.h"

#include <condition_variable>
#include <fcntl.h>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "sim/test_history.h"

namespace berth::sim {
namespace {

using namespace std::chrono_literals;

// Three threads each write their letter while they hold the lock.
void WriteLetters(std::string& text) {
  std::mutex mutex;
  const auto writes = [&](char letter) {
    for (int i = 0; i < 8; ++i) {
      const std::scoped_lock lock(mutex);
      text += letter;
      std::this_thread::yield();
    }
  };
  const std::jthread a(writes, 'a');
  const std::jthread b(writes, 'b');
  const std::jthread c(writes, 'c');
}

TEST(Scheduler, RepeatsTheHistoryOfASeed) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    EXPECT_EQ(TellOf(seed, WriteLetters).text, TellOf(seed, WriteLetters).text);
  }
}

TEST(Scheduler, MakesOtherHistoriesFromOtherSeeds) {
  std::set<std::string> histories;
  for (std::uint64_t seed = 1; seed < 20; ++seed) histories.insert(TellOf(seed, WriteLetters).text);
  EXPECT_GT(histories.size(), 10U);
}

TEST(Scheduler, LetsOnlyOneThreadHoldAMutex) {
  const auto body = [](std::string& text) {
    std::mutex mutex;
    int inside = 0;
    const auto enters = [&] {
      for (int i = 0; i < 20; ++i) {
        const std::scoped_lock lock(mutex);
        if (++inside != 1) text = "two";
        std::this_thread::yield();
        --inside;
      }
    };
    const std::jthread a(enters);
    const std::jthread b(enters);
  };
  for (std::uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(TellOf(seed, body).text, "");
}

TEST(Scheduler, SleepsForHalfAnHourOfVirtualTime) {
  const Written told = TellOf(1, [](std::string& text) {
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(30min);
    const auto slept = std::chrono::steady_clock::now() - begin;
    text = slept >= 30min && slept < 31min ? "half an hour" : "another time";
  });
  EXPECT_EQ(told.text, "half an hour");
}

TEST(Scheduler, EndsAWaitAtItsTimeout) {
  const Written told = TellOf(1, [](std::string& text) {
    std::mutex mutex;
    std::condition_variable nobody_notifies;
    std::unique_lock lock(mutex);
    text = nobody_notifies.wait_for(lock, 5s) == std::cv_status::timeout ? "over" : "woken";
  });
  EXPECT_EQ(told.text, "over");
}

TEST(Scheduler, NoticesThatAllThreadsWaitForEver) {
  const Written told = TellOf(1, [](std::string&) {
    std::mutex mutex;
    std::condition_variable nobody_notifies;
    std::unique_lock lock(mutex);
    nobody_notifies.wait(lock);
  });
  EXPECT_EQ(told.ended, Ended::kStuck);
}

TEST(Scheduler, FinishesAStopCallbackBeforeItIsDestroyed) {
  const auto body = [](std::string& text) {
    std::mutex mutex;
    std::jthread thread([&](const std::stop_token& stop) {
      const std::stop_callback wake(stop, [&] {
        const std::scoped_lock lock(mutex);
        text += "called ";
      });
      while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
    });
    std::this_thread::sleep_for(10ms);
    thread.request_stop();
    thread.join();
    text += "ended";
  };
  for (std::uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(TellOf(seed, body).text, "called ended");
}

TEST(Scheduler, ReleasesTheFileLocksOfAKilledProcess) {
  const Written told = TellOf(1, [](std::string& text) {
    const std::string path = "/sim/lock";
    const auto holder = std::make_shared<Process>("holder");
    Spawn(holder, [&] {
      flock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), LOCK_EX);
      text += "held ";
      std::this_thread::sleep_for(1h);
    });
    std::this_thread::sleep_for(1s);
    Kill(*holder);
    flock(open(path.c_str(), O_RDWR | O_CLOEXEC), LOCK_EX);
    text += "taken";
  });
  EXPECT_EQ(told.text, "held taken");
}

TEST(Scheduler, DrawsRandomDeviceNumbersFromTheSeed) {
  const auto draw = [](std::string& text) { text = std::to_string(std::random_device{}()); };
  EXPECT_EQ(TellOf(7, draw).text, TellOf(7, draw).text);
  EXPECT_NE(TellOf(7, draw).text, TellOf(8, draw).text);
}

}  // namespace
}  // namespace berth::sim
