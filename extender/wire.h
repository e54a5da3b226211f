// SPDX-License-Identifier: Apache-2.0
// The JSON that kube-scheduler and an extender exchange (k8s.io/kube-scheduler, extender/v1).
//
// The scheduler's own types have no JSON tags, so its keys are "Pod", "Nodes" and "NodeNames". The types of 2017, which
// a policy file used, have lower-case keys: "pod", "nodes", "nodenames". The extender reads keys in any letter case,
// and answers with lower-case keys if the question has the key "pod".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "extender/choice.h"

namespace berth::extender {

// ExtenderArgs, for /filter and /prioritize.
struct Question {
  nlohmann::json pod;              // an object
  std::vector<std::string> names;  // names of the offered nodes, each once
  nlohmann::json nodes;            // the NodeList, if whole Nodes were offered; otherwise null
  bool has_lower_keys = false;
};

// Errors: kDecode (no JSON), kInvalid (other JSON than ExtenderArgs, JSON of more than 100 levels, a node without a
// name, or a node that is in the list twice).
[[nodiscard]] Expected<Question> ParseQuestion(std::string_view body);

// ExtenderFilterResult, with node names or whole Nodes as in the question. If `choice` has an error: only the error,
// like FilterError.
[[nodiscard]] std::string FilterAnswer(Question question, const Choice& choice);
// ExtenderFilterResult that contains only an error. The scheduler tries the pod again after a second or more.
[[nodiscard]] std::string FilterError(const std::string& error, bool has_lower_keys = false);
// HostPriorityList. Requires: as many scores as names.
[[nodiscard]] std::string ScoreAnswer(const Question& question, const std::vector<int>& scores);

}  // namespace berth::extender
