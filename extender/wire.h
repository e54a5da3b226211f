// SPDX-License-Identifier: Apache-2.0
// The JSON that kube-scheduler and an extender exchange (k8s.io/kube-scheduler, extender/v1).
//
// The scheduler's own types have no JSON tags, so its keys are "Pod", "Nodes" and "NodeNames". The types of 2017, which
// a policy file used, have lower-case ones: "pod", "nodes", "nodenames". Keys are read in any letter case, and the
// answer has the question's: lower-case keys if the question's are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "extender/choice.h"

namespace berth::extender {

// ExtenderArgs: of /filter and /prioritize alike.
struct Question {
  nlohmann::json pod;              // an object
  std::vector<std::string> names;  // of the nodes offered, each once
  nlohmann::json nodes;            // the NodeList, if whole Nodes were offered; else null
  bool has_lower_keys = false;
};

// Errors: kDecode (no JSON), kInvalid (other JSON than ExtenderArgs, or no node offered).
[[nodiscard]] Expected<Question> ParseQuestion(std::string_view body);

// ExtenderFilterResult, with node names or whole Nodes as the question has. `question` gives away its Nodes.
[[nodiscard]] std::string FilterAnswer(Question question, const Choice& choice);
// ExtenderFilterResult that says only why there is none. The scheduler tries the pod again, after a second or more.
[[nodiscard]] std::string FilterError(const std::string& error, bool has_lower_keys = false);
// HostPriorityList. Requires: as many scores as names.
[[nodiscard]] std::string ScoreAnswer(const Question& question, const std::vector<int>& scores);

}  // namespace berth::extender
