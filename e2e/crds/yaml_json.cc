// SPDX-License-Identifier: Apache-2.0
// YAML to JSON: a quoted scalar is text; a plain scalar may be a bool, a number or text.
#include "e2e/crds/yaml_json.h"

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

namespace berth::e2e {

namespace {

using Json = nlohmann::json;

Json JsonOfScalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true" || text == "false") return text == "true";
  std::int64_t number = 0;
  // Octal and hexadecimal numbers become text, because 010 in a manifest is always a mistake.
  const bool decimal = text == "0" || (!text.empty() && text.find_first_not_of("-0123456789") == std::string::npos &&
                                       text.front() != '0');
  if (decimal && YAML::convert<std::int64_t>::decode(node, number)) return number;
  return text;
}

Json JsonOfNode(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return JsonOfScalar(node);
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const YAML::Node& element : node) list.push_back(JsonOfNode(element));
      return list;
    }
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& member : node) object[member.first.Scalar()] = JsonOfNode(member.second);
      return object;
    }
    case YAML::NodeType::Null:
    case YAML::NodeType::Undefined:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Json JsonOfYaml(const std::string& yaml) { return JsonOfNode(YAML::Load(yaml)); }

}  // namespace berth::e2e
