// SPDX-License-Identifier: Apache-2.0
// Story: who did what when, in virtual time, for a person; and what was broken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace berth::sim {

class Story {
 public:
  // `is_told`: printed to stdout as it happens.
  explicit Story(bool is_told) : is_told_(is_told) {}

  // By the running process. Part of the history's hash.
  void Tell(std::string_view what);
  // As a block is stored now, if anybody is told.
  void TellBlock(const nlohmann::json& before, const nlohmann::json& after) const;
  // A rule is broken: the history ends here. `rule` is its checker's short name.
  void Break(std::string_view rule, const std::string& how);

  struct Broken {
    std::string rule;
    std::string how;
  };
  [[nodiscard]] const std::vector<Broken>& broken() const { return broken_; }

 private:
  static void Print(std::string_view who, std::string_view what);

  bool is_told_;
  std::vector<Broken> broken_;
};

}  // namespace berth::sim
