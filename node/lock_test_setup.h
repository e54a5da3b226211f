// SPDX-License-Identifier: Apache-2.0
// For tests only: whether a process waits for the lock of a file.
#pragma once

#include <fstream>
#include <string>
#include <sys/stat.h>

namespace berth::node {

inline bool IsLockWaitedFor(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return false;
  const std::string inode = ":" + std::to_string(facts.st_ino) + " ";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find("->") != std::string::npos && line.find(inode) != std::string::npos) return true;
  }
  return false;
}

}  // namespace berth::node
