// SPDX-License-Identifier: Apache-2.0
// What the rules of the IPBlock CRD cost: the same PATCHes, alternately, of a block under our CRD and of one under
// copies of it without the CEL rules, without the pattern on entries, and without both.
//
//   e2e_crds_cost [ROUNDS [MAX_MS]]
//
// Prints medians. With MAX_MS it fails if all rules together add more. Alternating means that whatever else the machine
// does hits all alike. MAX_MS is meant for a machine that is otherwise idle; one that is so busy that even a bare PATCH
// takes longer than it should is allowed as much more in proportion, and three tries.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "e2e/crds/requests.h"
#include "e2e/crds/yaml_json.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;
using nlohmann::json;

constexpr int kEntries = 63;
constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
constexpr int kRunsMax = 3;
// A PATCH of 64 entries without rules on an idle machine of two cores, measured before there were rules.
constexpr double kBareMs = 2.1;

struct Variant {
  const char* name;
  bool without_rules;
  bool without_pattern;
  std::string path = {};  // of its block
  std::string resource_version = {};
  std::vector<double> took_ms = {};
};

// Removes a key everywhere in a schema.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema in this tree
void Strip(json& schema, const char* key) {
  if (schema.is_object()) schema.erase(key);
  if (schema.is_structured()) {
    for (json& element : schema) Strip(element, key);
  }
}

[[noreturn]] void Fail(const std::string& what, const Answer& answer) {
  throw std::runtime_error(what + ": " + std::to_string(answer.status) + " " + answer.body.dump());
}

// As long as real ones: a Deployment's pod in a namespace with a name of two words.
std::string Entry(int number) {
  char text[ipam::kEntryLengthMax];
  std::snprintf(
      text,
      sizeof text,
      "team-payments/checkout-7d9f8b6c5d-%05d 0d3f1c2a-5b7e-4f60-9a1b-%012d 0123456789ab-%016x i=eth0 t=17637%08d",
      number,
      number,
      static_cast<unsigned>(number),
      number);
  return text;
}

std::string GroupOf(const Variant& variant) { return std::string(variant.name) + ".cost.berth.test"; }

void CreateCrd(const Variant& variant) {
  json crd = JsonOfYaml(ReadSource("crds/ipblock.yaml"));
  if (variant.without_rules) Strip(crd, "x-kubernetes-validations");
  if (variant.without_pattern) Strip(crd, "pattern");
  crd["spec"]["group"] = GroupOf(variant);
  crd["metadata"]["name"] = "ipblocks." + GroupOf(variant);
  crd["spec"]["names"].erase("shortNames");
  crd["spec"]["names"].erase("categories");
  const Answer answer = Send(Method::kPost, kCrds, crd);
  if (answer.status != 201) Fail("create CRD", answer);
}

// The block, once the server serves its kind.
void CreateBlock(Variant& variant) {
  ipam::Block block;
  block.cidr = ipam::Prefix::Parse("10.55.0.0/26").value();
  block.name = ipam::BlockName(block.space, block.cidr);
  block.pool = "web";
  block.pool_uid = "0d3f1c2a-5b7e-4f60-9a1b-000000000000";
  block.node = "n1";
  block.agent = "a.1";
  block.free = 1;
  for (int i = 0; i < kEntries; ++i) block.allocations[static_cast<ipam::BlockOffset>(i)] = Entry(i);
  json object = crds::BlockToJson(block);
  object["apiVersion"] = GroupOf(variant) + "/v1alpha1";
  const std::string collection = "/apis/" + GroupOf(variant) + "/v1alpha1/ipblocks";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Answer answer = Send(Method::kPost, collection, object);
  // 404: the server does not know the kind yet. Asking again is the only way to learn that it does.
  while (answer.status == 404 && std::chrono::steady_clock::now() < deadline) {
    answer = Send(Method::kPost, collection, object);
  }
  if (answer.status != 201) Fail("create block", answer);
  variant.path = collection + "/" + block.name;
  variant.resource_version = answer.body["metadata"]["resourceVersion"].get<std::string>();
}

// One address given back and taken by another pod: what an agent writes.
void PatchOnce(Variant& variant, int round) {
  const json patch = {{"metadata", {{"resourceVersion", variant.resource_version}}},
                      {"next", round % (kEntries + 1)},
                      {"allocations", {{std::to_string(round % kEntries), Entry(1000 + round)}}}};
  const auto start = std::chrono::steady_clock::now();
  const Answer answer = Send(Method::kPatch, variant.path, patch, k8sclient::kMergePatch);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (answer.status != 200) Fail("patch block", answer);
  variant.resource_version = answer.body["metadata"]["resourceVersion"].get<std::string>();
  variant.took_ms.push_back(took.count());
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Result {
  double bare_ms;
  double added_ms;  // by all rules
};

Result Measure(std::vector<Variant>& variants, int rounds) {
  for (int round = 0; round < rounds / 10; ++round) {
    for (Variant& variant : variants) PatchOnce(variant, round);
  }
  for (Variant& variant : variants) variant.took_ms.clear();
  for (int round = 0; round < rounds; ++round) {
    // Each round begins with another one, so that none always comes behind the same neighbour.
    std::ranges::rotate(variants, variants.begin() + 1);
    for (Variant& variant : variants) PatchOnce(variant, round);
  }
  std::ranges::sort(variants, {}, [](const Variant& v) { return std::pair(v.without_rules, v.without_pattern); });
  const double bare = Median(variants.back().took_ms);
  for (const Variant& variant : variants) {
    const double median = Median(variant.took_ms);
    std::printf("%-16s %7.3f ms   %+.3f\n", variant.name, median, median - bare);
  }
  return {.bare_ms = bare, .added_ms = Median(variants.front().took_ms) - bare};
}

// What a process of ours pays for the same block: parse the answer, decide, make the patch.
void MeasureTypes(const std::string& path) {
  json object = Get(path).body;
  object["apiVersion"] = crds::kApiVersion;
  const std::string text = object.dump();
  std::vector<double> took_ms;
  for (int i = 0; i < 1000; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto block = crds::ParseBlock(json::parse(text));
    if (!block) Fail(block.error().message, {});
    ipam::Block after = *block;
    after.allocations[kEntries] = Entry(i);
    const std::string patch = crds::BlockMergePatch(*block, after).dump();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    took_ms.push_back(patch.empty() ? 0 : took.count());
  }
  std::printf("parse and patch  %7.3f ms   %zu bytes of JSON\n", Median(took_ms), text.size());
}

struct Options {
  int rounds = 500;
  double max_ms = 0;  // 0: no bound
};

int Run(const Options& options) {
  const auto [rounds, max_ms] = options;
  std::vector<Variant> variants = {{.name = "rules", .without_rules = false, .without_pattern = false},
                                   {.name = "no-pattern", .without_rules = false, .without_pattern = true},
                                   {.name = "no-cel", .without_rules = true, .without_pattern = false},
                                   {.name = "bare", .without_rules = true, .without_pattern = true}};
  for (const Variant& variant : variants) CreateCrd(variant);
  for (Variant& variant : variants) CreateBlock(variant);
  bool within = max_ms <= 0;
  for (int run = 0; run == 0 || (run < kRunsMax && !within); ++run) {
    std::printf("PATCH of a block with %d entries, medians of %d, and what is more than bare\n", kEntries, rounds);
    const Result result = Measure(variants, rounds);
    if (max_ms <= 0) continue;
    const double slower = std::max(1.0, result.bare_ms / kBareMs);
    within = result.added_ms <= max_ms * slower;
    std::printf("the rules add %.3f ms, %s %.3f (the machine is %.1f times slower than an idle one)\n",
                result.added_ms,
                within ? "at most" : "MORE THAN",
                max_ms * slower,
                slower);
  }
  MeasureTypes(variants.front().path);
  for (const Variant& variant : variants) {
    const Answer answer = Send(Method::kDelete, std::string(kCrds) + "/ipblocks." + GroupOf(variant), json::object());
    if (answer.status != 200) Fail("delete CRD", answer);
  }
  return within ? 0 : 1;
}

// The whole text as a number, or nothing.
template <typename Number>
std::optional<Number> NumberOf(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

int Main(const std::vector<std::string_view>& arguments) {
  const auto rounds = arguments.empty() ? std::optional(500) : NumberOf<int>(arguments[0]);
  const auto max_ms = arguments.size() < 2 ? std::optional(0.0) : NumberOf<double>(arguments[1]);
  if (!rounds || *rounds < 10 || !max_ms || arguments.size() > 2) {
    std::fputs("usage: e2e_crds_cost [ROUNDS [MAX_MS]]\n", stderr);
    return 2;
  }
  return Run({.rounds = *rounds, .max_ms = *max_ms});
}

}  // namespace
}  // namespace berth::e2e

int main(int argc, char* argv[]) {  // NOLINT(misc-const-correctness): so the standard declares it
  try {
    return berth::e2e::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "e2e_crds_cost: %s\n", error.what());
    return 2;
  }
}
