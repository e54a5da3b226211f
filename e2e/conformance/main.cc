// SPDX-License-Identifier: Apache-2.0
// Like gtest_main, but a write to a broken pipe returns an error and does not end the process.
#include <csignal>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
