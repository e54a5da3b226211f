// SPDX-License-Identifier: Apache-2.0
// Upgrades: what objects of the last release would lose with the CRDs of this tree. An API server drops fields that the
// schema lacks, and refuses writes of objects that the schema does not allow any more.
//
// The test reads the last release from git, where it cannot change: the newest tag "v..." before this commit.
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "base/places.h"

namespace berth::crds {
namespace {

using testing::IsEmpty;

using Losses = std::vector<std::string>;

std::string TextOf(const YAML::Node& node) { return node ? YAML::Dump(node) : std::string(); }
bool IsTrue(const YAML::Node& node) { return node && node.as<bool>(); }

// Finds limits that are new or narrower.
void CompareLimits(const std::string& path, const YAML::Node& before, const YAML::Node& after, Losses& losses) {
  for (const char* edge : {"exclusiveMaximum", "exclusiveMinimum"}) {
    if (IsTrue(after[edge]) && !IsTrue(before[edge])) losses.push_back(path + ": " + edge + " is new");
  }
  for (const char* upper : {"maximum", "maxLength", "maxItems", "maxProperties"}) {
    if (!after[upper]) continue;
    if (!before[upper] || after[upper].as<double>() < before[upper].as<double>()) {
      losses.push_back(path + ": " + upper + " is smaller");
    }
  }
  for (const char* lower : {"minimum", "minLength", "minItems", "minProperties"}) {
    if (!after[lower]) continue;
    if (!before[lower] || after[lower].as<double>() > before[lower].as<double>()) {
      losses.push_back(path + ": " + lower + " is larger");
    }
  }
}

void CompareRequired(const std::string& path, const YAML::Node& before, const YAML::Node& after, Losses& losses) {
  for (const auto& name : after["required"]) {
    bool was_required = false;
    for (const auto& old : before["required"]) was_required |= old.as<std::string>() == name.as<std::string>();
    if (!was_required) losses.push_back(path + ": " + name.as<std::string>() + " is required now");
  }
}

void CompareValues(const std::string& path, const YAML::Node& before, const YAML::Node& after, Losses& losses) {
  if (after["enum"] && !before["enum"]) losses.push_back(path + ": enum is new");
  for (const auto& value : before["enum"]) {
    bool is_there = !after["enum"];
    for (const auto& now : after["enum"]) is_there |= now.as<std::string>() == value.as<std::string>();
    if (!is_there) losses.push_back(path + ": the value " + value.as<std::string>() + " is refused now");
  }
}

// Finds new rules, because a new rule may refuse objects that were accepted before. (If the text of a rule has changed,
// the test cannot know what the rule accepts, so this counts as a new rule.)
void CompareRules(const std::string& path, const YAML::Node& before, const YAML::Node& after, Losses& losses) {
  const auto text = [](const YAML::Node& rule) { return TextOf(rule["rule"]) + TextOf(rule["optionalOldSelf"]); };
  for (const auto& now : after["x-kubernetes-validations"]) {
    bool was_there = false;
    for (const auto& old : before["x-kubernetes-validations"]) was_there |= text(old) == text(now);
    if (!was_there) losses.push_back(path + ": this rule is new: " + now["rule"].as<std::string>());
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
void CompareSchemas(const std::string& path, const YAML::Node& before, const YAML::Node& after, Losses& losses) {
  if (!after) {
    losses.push_back(path + ": is dropped");
    return;
  }
  // These keys decide which objects are valid, what they mean, and how patches are merged.
  for (const char* key : {"type",
                          "format",
                          "default",
                          "x-kubernetes-list-type",
                          "x-kubernetes-list-map-keys",
                          "x-kubernetes-map-type",
                          "x-kubernetes-int-or-string"}) {
    if (TextOf(before[key]) != TextOf(after[key])) losses.push_back(path + ": " + key + " is another one");
  }
  for (const char* key : {"pattern", "multipleOf", "uniqueItems", "allOf", "anyOf", "oneOf", "not"}) {
    if (after[key] && TextOf(before[key]) != TextOf(after[key]))
      losses.push_back(path + ": " + key + " is another one");
  }
  for (const char* key : {"nullable", "x-kubernetes-preserve-unknown-fields"}) {
    if (IsTrue(before[key]) && !IsTrue(after[key])) losses.push_back(path + ": " + key + " is gone");
  }
  CompareRules(path, before, after, losses);
  CompareLimits(path, before, after, losses);
  CompareRequired(path, before, after, losses);
  CompareValues(path, before, after, losses);
  const YAML::Node now = after["properties"];
  for (const auto& property : before["properties"]) {
    const auto name = property.first.as<std::string>();
    CompareSchemas(path + "." + name, property.second, now ? now[name] : now, losses);
  }
  for (const char* inner : {"items", "additionalProperties"}) {
    if (before[inner]) CompareSchemas(path + "." + inner, before[inner], after[inner], losses);
  }
}

YAML::Node VersionOf(const YAML::Node& crd, const std::string& name) {
  for (const auto& version : crd["spec"]["versions"]) {
    if (version["name"].as<std::string>() == name) return version;
  }
  return {};
}

// Finds everything that objects stored with the schema `before` lose with the schema `after`.
Losses Compare(const std::string& before_text, const std::string& after_text) {
  const YAML::Node before = YAML::Load(before_text);
  const YAML::Node after = YAML::Load(after_text);
  Losses losses;
  for (const char* key : {"group", "scope"}) {
    if (TextOf(before["spec"][key]) != TextOf(after["spec"][key]))
      losses.push_back(std::string(key) + ": is another one");
  }
  for (const char* key : {"kind", "plural"}) {
    if (TextOf(before["spec"]["names"][key]) != TextOf(after["spec"]["names"][key])) {
      losses.push_back(std::string(key) + ": is another one");
    }
  }
  for (const auto& version : before["spec"]["versions"]) {
    const auto name = version["name"].as<std::string>();
    const YAML::Node now = VersionOf(after, name);
    if (!now.IsMap() || !now["served"].as<bool>()) {
      losses.push_back(name + ": is served no more");
      continue;
    }
    if (IsTrue(version["storage"]) && !IsTrue(now["storage"])) losses.push_back(name + ": is stored no more");
    if (TextOf(version["subresources"]) != TextOf(now["subresources"]))
      losses.push_back(name + ": subresources differ");
    for (const auto& field : version["selectableFields"]) {
      bool is_there = false;
      for (const auto& one : now["selectableFields"]) is_there |= TextOf(one["jsonPath"]) == TextOf(field["jsonPath"]);
      if (!is_there) losses.push_back(name + ": can't be selected by " + field["jsonPath"].as<std::string>());
    }
    CompareSchemas(name, version["schema"]["openAPIV3Schema"], now["schema"]["openAPIV3Schema"], losses);
  }
  return losses;
}

std::string Crd(const std::string& properties, const std::string& more = "") {
  return "spec: {group: g, scope: Cluster, names: {kind: K}, versions: [{name: v1, served: true, schema: "
         "{openAPIV3Schema: {type: object" +
         more + ", properties: {" + properties + "}}}}]}";
}

std::string Version(const std::string& fields) {
  return "spec: {names: {kind: K}, versions: [{name: v1, " + fields + ", schema: {openAPIV3Schema: {type: object}}}]}";
}

struct ChangeCase {
  const char* name;
  std::string before;
  std::string after;
  Losses losses;
};
class CrdChange : public testing::TestWithParam<ChangeCase> {};

TEST_P(CrdChange, IsFoundIfObjectsWouldLoseByIt) {
  EXPECT_EQ(Compare(GetParam().before, GetParam().after), GetParam().losses);
}

const ChangeCase kChanges[] = {
    {"None", Crd("a: {type: string}"), Crd("a: {type: string}"), {}},
    {"FieldAdded", Crd("a: {type: string}"), Crd("a: {type: string}, b: {type: string}"), {}},
    {"FieldDropped", Crd("a: {type: string}, b: {type: string}"), Crd("a: {type: string}"), {"v1.b: is dropped"}},
    {"FieldWithinAListDropped",
     Crd("a: {type: array, items: {type: object, properties: {b: {type: string}}}}"),
     Crd("a: {type: array, items: {type: object}}"),
     {"v1.a.items.b: is dropped"}},
    {"TypeChanged", Crd("a: {type: string}"), Crd("a: {type: integer}"), {"v1.a: type is another one"}},
    {"MapMadeGranular",
     Crd("a: {type: object, x-kubernetes-map-type: atomic}"),
     Crd("a: {type: object}"),
     {"v1.a: x-kubernetes-map-type is another one"}},
    {"ValueAdded", Crd("a: {type: string, enum: [x]}"), Crd("a: {type: string, enum: [x, y]}"), {}},
    {"ValueRemoved",
     Crd("a: {type: string, enum: [x, y]}"),
     Crd("a: {type: string, enum: [x]}"),
     {"v1.a: the value y is refused now"}},
    {"PatternRemoved", Crd("a: {type: string, pattern: x}"), Crd("a: {type: string}"), {}},
    {"PatternChanged",
     Crd("a: {type: string, pattern: x}"),
     Crd("a: {type: string, pattern: y}"),
     {"v1.a: pattern is another one"}},
    {"FieldRequired",
     Crd("a: {type: string}", ", required: [b]"),
     Crd("a: {type: string}", ", required: [a, b]"),
     {"v1: a is required now"}},
    {"RuleTextChangedInItsMessageAlone",
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r, message: m}]}"),
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r, message: n}]}"),
     {}},
    {"RuleRemoved", Crd("a: {type: string, x-kubernetes-validations: [{rule: r}]}"), Crd("a: {type: string}"), {}},
    {"RuleAdded",
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r}]}"),
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r}, {rule: s}]}"),
     {"v1.a: this rule is new: s"}},
    {"RuleChanged",
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r}]}"),
     Crd("a: {type: string, x-kubernetes-validations: [{rule: s}]}"),
     {"v1.a: this rule is new: s"}},
    {"RuleForUpdatesMadeOneForAll",
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r}]}"),
     Crd("a: {type: string, x-kubernetes-validations: [{rule: r, optionalOldSelf: true}]}"),
     {"v1.a: this rule is new: r"}},
    {"RuleOfTheWholeAdded",
     Crd("a: {type: string}"),
     Crd("a: {type: string}", ", x-kubernetes-validations: [{rule: r}]"),
     {"v1: this rule is new: r"}},
    {"RuleWithinAMapAdded",
     Crd("a: {type: object, additionalProperties: {type: string}}"),
     Crd("a: {type: object, additionalProperties: {type: string, x-kubernetes-validations: [{rule: r}]}}"),
     {"v1.a.additionalProperties: this rule is new: r"}},
    {"MapDropped",
     Crd("a: {type: object, additionalProperties: {type: string}}"),
     Crd("a: {type: object}"),
     {"v1.a.additionalProperties: is dropped"}},
    {"DefaultChanged",
     Crd("a: {type: string, default: x}"),
     Crd("a: {type: string, default: y}"),
     {"v1.a: default is another one"}},
    {"DefaultAdded", Crd("a: {type: string}"), Crd("a: {type: string, default: y}"), {"v1.a: default is another one"}},
    {"DefaultRemoved",
     Crd("a: {type: string, default: x}"),
     Crd("a: {type: string}"),
     {"v1.a: default is another one"}},
    {"UnknownFieldsDropped",
     Crd("a: {type: object, x-kubernetes-preserve-unknown-fields: true}"),
     Crd("a: {type: object}"),
     {"v1.a: x-kubernetes-preserve-unknown-fields is gone"}},
    {"NullRefused",
     Crd("a: {type: string, nullable: true}"),
     Crd("a: {type: string, nullable: false}"),
     {"v1.a: nullable is gone"}},
    {"FormatAdded", Crd("a: {type: string}"), Crd("a: {type: string, format: date}"), {"v1.a: format is another one"}},
    {"AlternativesAdded",
     Crd("a: {type: object}"),
     Crd("a: {type: object, oneOf: [{required: [b]}, {required: [c]}]}"),
     {"v1.a: oneOf is another one"}},
    {"EdgeExcluded",
     Crd("a: {type: integer, maximum: 5}"),
     Crd("a: {type: integer, maximum: 5, exclusiveMaximum: true}"),
     {"v1.a: exclusiveMaximum is new"}},
    {"ListMadeAMap",
     Crd("a: {type: array, x-kubernetes-list-type: atomic}"),
     Crd("a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b]}"),
     {"v1.a: x-kubernetes-list-type is another one", "v1.a: x-kubernetes-list-map-keys is another one"}},
    {"EnumAdded", Crd("a: {type: string}"), Crd("a: {type: string, enum: [x]}"), {"v1.a: enum is new"}},
    {"SelectableFieldAdded", Version("served: true"), Version("served: true, selectableFields: [{jsonPath: .a}]"), {}},
    {"SelectableFieldRemoved",
     Version("served: true, selectableFields: [{jsonPath: .a}, {jsonPath: .b}]"),
     Version("served: true, selectableFields: [{jsonPath: .b}]"),
     {"v1: can't be selected by .a"}},
    {"StatusMadeApart",
     Version("served: true"),
     Version("served: true, subresources: {status: {}}"),
     {"v1: subresources differ"}},
    {"VersionServedNoMore", Version("served: true"), Version("served: false"), {"v1: is served no more"}},
    {"VersionStoredNoMore",
     Version("served: true, storage: true"),
     Version("served: true, storage: false"),
     {"v1: is stored no more"}},
    {"KindChanged",
     "spec: {names: {kind: K, plural: ks}, versions: []}",
     "spec: {names: {kind: L, plural: ls}, versions: []}",
     {"kind: is another one", "plural: is another one"}},
    {"ShortNameAdded",
     "spec: {names: {kind: K}, versions: []}",
     "spec: {names: {kind: K, shortNames: [k]}, versions: []}",
     {}},
    {"VersionGone",
     Crd("a: {type: string}"),
     "spec: {group: g, scope: Cluster, names: {kind: K}, versions: [{name: v2, served: true}]}",
     {"v1: is served no more"}},
    {"ScopeChanged",
     "spec: {group: g, scope: Cluster, names: {kind: K}, versions: []}",
     "spec: {group: g, scope: Namespaced, names: {kind: K}, versions: []}",
     {"scope: is another one"}},
};
INSTANTIATE_TEST_SUITE_P(Table, CrdChange, testing::ValuesIn(kChanges),
                         [](const auto& c) { return std::string(c.param.name); });

class CrdBound : public testing::TestWithParam<const char*> {};

TEST_P(CrdBound, IsFoundIfItIsTightened) {
  const std::string key = GetParam();
  const bool is_upper = key.starts_with("max");
  const auto bounded = [&key](int bound) { return Crd("a: {" + key + ": " + std::to_string(bound) + "}"); };
  const Losses found{"v1.a: " + key + (is_upper ? " is smaller" : " is larger")};
  EXPECT_EQ(Compare(bounded(5), bounded(is_upper ? 4 : 6)), found);
  EXPECT_EQ(Compare(Crd("a: {}"), bounded(5)), found);
  EXPECT_THAT(Compare(bounded(5), bounded(is_upper ? 6 : 4)), IsEmpty());
  EXPECT_THAT(Compare(bounded(5), Crd("a: {}")), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(All, CrdBound,
                         testing::Values("maximum", "maxLength", "maxItems", "maxProperties", "minimum", "minLength",
                                         "minItems", "minProperties"));

// The output of git; nothing if git fails.
std::optional<std::string> Git(const std::string& arguments) {
  const std::string command = "git -C '" + SourceDir() + "' " + arguments + " 2>/dev/null";
  std::FILE* const pipe = popen(command.c_str(), "r");  // NOLINT(bugprone-command-processor): constant arguments
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> chunk{};
  for (std::size_t count = 0; (count = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    text.append(chunk.data(), count);
  }
  if (pclose(pipe) != 0) return std::nullopt;
  return text;
}

TEST(Release, OfItsObjectsNothingIsLost) {
  const auto described = Git("describe --tags --abbrev=0 --match 'v[0-9]*'");
  if (!described) GTEST_SKIP() << "no release is tagged in this clone: there is nothing to compare with";
  const std::string tag = described->substr(0, described->find('\n'));
  const auto files = Git("ls-tree --name-only " + tag + " crds/");
  ASSERT_TRUE(files.has_value());
  int compared = 0;
  for (std::size_t start = 0; start < files->size(); start = files->find('\n', start) + 1) {
    const std::string file = files->substr(start, files->find('\n', start) - start);
    if (!file.ends_with(".yaml")) continue;
    const std::string released = Git("show " + tag + ":" + file).value_or("");
    if (released.find("kind: CustomResourceDefinition\n") == std::string::npos) continue;
    SCOPED_TRACE(file + " since " + tag);
    ++compared;
    std::string now;
    const auto path = std::filesystem::path(SourceDir()) / file;
    if (std::filesystem::exists(path)) now = TextOf(YAML::LoadFile(path));
    ASSERT_FALSE(now.empty()) << "the kind is gone, and its objects with it";
    EXPECT_THAT(Compare(released, now), IsEmpty());
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace berth::crds
