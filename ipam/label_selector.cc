// SPDX-License-Identifier: Apache-2.0
// Matches labels, and prints a selector in the form that kubectl's option -l understands.
#include "ipam/label_selector.h"

#include <algorithm>

namespace berth::ipam {

namespace {

using Operator = LabelRequirement::Operator;

bool Holds(const LabelRequirement& requirement, const Labels& labels) {
  const auto label = labels.find(requirement.key);
  const bool exists = label != labels.end();
  const bool listed = exists && std::ranges::find(requirement.values, label->second) != requirement.values.end();
  switch (requirement.op) {
    case Operator::kIn:
      return listed;
    case Operator::kNotIn:
      return !listed;
    case Operator::kExists:
      return exists;
    case Operator::kDoesNotExist:
      return !exists;
  }
  return false;
}

std::string InParentheses(const std::vector<std::string>& values) {
  std::string text = "(";
  for (const std::string& value : values) {
    if (text.size() > 1) text += ',';
    text += value;
  }
  return text + ")";
}

std::string ToText(const LabelRequirement& requirement) {
  switch (requirement.op) {
    case Operator::kIn:
      return requirement.key + " in " + InParentheses(requirement.values);
    case Operator::kNotIn:
      return requirement.key + " notin " + InParentheses(requirement.values);
    case Operator::kExists:
      return requirement.key;
    case Operator::kDoesNotExist:
      return "!" + requirement.key;
  }
  return requirement.key;
}

}  // namespace

bool LabelSelector::Matches(const Labels& labels) const {
  return std::ranges::all_of(requirements, [&](const auto& requirement) { return Holds(requirement, labels); });
}

std::string LabelSelector::ToString() const {
  std::string text;
  for (const LabelRequirement& requirement : requirements) {
    if (!text.empty()) text += ", ";
    text += ToText(requirement);
  }
  return text;
}

}  // namespace berth::ipam
