// SPDX-License-Identifier: Apache-2.0
// Story: the trace of a history (virtual time, process, event), and the rules that the history broke.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace berth::sim {

class Story {
 public:
  // `is_told`: the trace is printed to stdout.
  explicit Story(bool is_told) : is_told_(is_told) {}

  // Adds an event of the running process to the trace and to the history's hash.
  void Tell(std::string_view what);
  // Prints what a block contains now, if the trace is printed.
  void TellBlock(const nlohmann::json& before, const nlohmann::json& after) const;
  // Ends the history, because it broke a rule. `rule` is the rule's name.
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
