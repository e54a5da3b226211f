// SPDX-License-Identifier: Apache-2.0
// Runs the tests. Ignores SIGPIPE, because a plugin may stop reading at any time.
#include <csignal>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
