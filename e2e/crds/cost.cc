// SPDX-License-Identifier: Apache-2.0
// Measures how much time the rules of the IPBlock CRD cost: sends the same PATCHes alternately to a block of the CRD,
// and to blocks of copies of the CRD without the CEL rules, without the pattern on entries, and without both. Also
// measures how much time the policy on blocks costs a node, with its own block and a Shared block, with and without a
// copy of the policy.
//
//   e2e_crds_cost [ROUNDS [MAX_MS]]
//
// Prints medians. With MAX_MS the program fails if all rules together add more than MAX_MS, or the policy more than its
// limits. The PATCHes alternate, so that other load of the machine affects all blocks alike. MAX_MS is for an idle
// machine. If even a PATCH without rules is slow, the limits are raised in proportion, and the program tries three
// times.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "e2e/crds/object_cases.h"
#include "e2e/crds/requests.h"
#include "e2e/crds/yaml_json.h"
#include "e2e/test_cluster.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;
using nlohmann::json;

constexpr int kEntries = 63;
constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
constexpr int kRunsMax = 3;
// A PATCH of 64 entries without rules on an idle machine of two cores, measured before there were rules.
constexpr double kBareMs = 2.1;
constexpr const char* kNode = "n1";
constexpr double kOwnPolicyMaxMs = 0.1;
constexpr double kSharedPolicyMaxMs = 0.5;

struct Variant {
  const char* name;
  bool without_rules = false;
  bool without_pattern = false;
  bool has_policy = false;
  bool is_shared = false;
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

// An entry as long as a real one: of a Deployment's pod in a namespace with a name of two words.
std::string Entry(int number, bool is_shared = false) {
  char text[ipam::kEntryLengthMax];
  std::snprintf(
      text,
      sizeof text,
      "team-payments/checkout-7d9f8b6c5d-%05d 0d3f1c2a-5b7e-4f60-9a1b-%012d 0123456789ab-%016x i=eth0 t=17637%08d%s%s",
      number,
      number,
      static_cast<unsigned>(number),
      number,
      is_shared ? " n=" : "",
      is_shared ? kNode : "");
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

// Creates the variant's block, once the server knows the block's kind.
void CreateBlock(Variant& variant) {
  ipam::Block block;
  block.cidr = ipam::Prefix::Parse("10.55.0.0/26").value();
  block.name = ipam::BlockName(block.space, block.cidr);
  block.pool = "web";
  block.pool_uid = "0d3f1c2a-5b7e-4f60-9a1b-000000000000";
  if (!variant.is_shared) block.node = kNode;
  block.free = 1;
  for (int i = 0; i < kEntries; ++i) {
    block.allocations[static_cast<ipam::BlockOffset>(i)] = Entry(i, variant.is_shared);
  }
  json object = crds::BlockToJson(block);
  object["apiVersion"] = GroupOf(variant) + "/v1alpha1";
  const std::string collection = "/apis/" + GroupOf(variant) + "/v1alpha1/ipblocks";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Answer answer = Send(Method::kPost, collection, object);
  // 404: the server does not know the kind yet, so try again.
  while (answer.status == 404 && std::chrono::steady_clock::now() < deadline) {
    answer = Send(Method::kPost, collection, object);
  }
  if (answer.status != 201) Fail("create block", answer);
  variant.path = collection + "/" + block.name;
  variant.resource_version = answer.body["metadata"]["resourceVersion"].get<std::string>();
}

// Sends a patch like an agent's: one pod gives back an address, and another pod gets it.
void PatchOnce(const Caller& caller, Variant& variant, int round) {
  const json patch = {{"metadata", {{"resourceVersion", variant.resource_version}}},
                      {"next", round % (kEntries + 1)},
                      {"allocations", {{std::to_string(round % kEntries), Entry(1000 + round, variant.is_shared)}}}};
  const auto start = std::chrono::steady_clock::now();
  const Answer answer = caller.Send(Method::kPatch, variant.path, patch, k8sclient::kMergePatch);
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

void RunRounds(const Caller& caller, std::vector<Variant>& variants, int rounds) {
  for (int round = 0; round < rounds / 10; ++round) {
    for (Variant& variant : variants) PatchOnce(caller, variant, round);
  }
  for (Variant& variant : variants) variant.took_ms.clear();
  for (int round = 0; round < rounds; ++round) {
    // Each round begins with another variant, so that no variant always follows the same one.
    std::ranges::rotate(variants, variants.begin() + 1);
    for (Variant& variant : variants) PatchOnce(caller, variant, round);
  }
}

Result Measure(const Caller& caller, std::vector<Variant>& variants, int rounds) {
  RunRounds(caller, variants, rounds);
  std::ranges::sort(variants, {}, [](const Variant& v) { return std::pair(v.without_rules, v.without_pattern); });
  const double bare = Median(variants.back().took_ms);
  for (const Variant& variant : variants) {
    const double median = Median(variant.took_ms);
    std::printf("%-16s %7.3f ms   %+.3f\n", variant.name, median, median - bare);
  }
  return {.bare_ms = bare, .added_ms = Median(variants.front().took_ms) - bare};
}

// Measures how long a program of berth works on the same block: parse the answer, decide, make the patch.
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

constexpr const char* kPolicies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
constexpr const char* kBindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

std::string PolicyOf(const Variant& variant) { return std::string("berth-cost-") + variant.name; }

void Remove(const std::vector<Variant>& variants) {
  const auto remove = [](const std::string& path) {
    const Answer answer = Send(Method::kDelete, path, json::object());
    if (answer.status != 200) Fail("delete " + path, answer);
  };
  for (const Variant& variant : variants) {
    remove(std::string(kCrds) + "/ipblocks." + GroupOf(variant));
    if (!variant.has_policy) continue;
    remove(std::string(kBindings) + "/" + PolicyOf(variant));
    remove(std::string(kPolicies) + "/" + PolicyOf(variant));
  }
}

// The machine's slowness: 1 for an idle machine.
double Slowness(double bare_ms) { return std::max(1.0, bare_ms / kBareMs); }

// Measures the rules of the CRD. Returns whether they stay within max_ms.
bool RunRules(const Options& options) {
  const auto [rounds, max_ms] = options;
  const Caller admin(AdminConfig());
  std::vector<Variant> variants = {{.name = "rules"},
                                   {.name = "no-pattern", .without_pattern = true},
                                   {.name = "no-cel", .without_rules = true},
                                   {.name = "bare", .without_rules = true, .without_pattern = true}};
  for (const Variant& variant : variants) CreateCrd(variant);
  for (Variant& variant : variants) CreateBlock(variant);
  bool within = max_ms <= 0;
  for (int run = 0; run == 0 || (run < kRunsMax && !within); ++run) {
    std::printf("PATCH of a block with %d entries, medians of %d, and what is more than bare\n", kEntries, rounds);
    const Result result = Measure(admin, variants, rounds);
    if (max_ms <= 0) continue;
    const double slower = Slowness(result.bare_ms);
    within = result.added_ms <= max_ms * slower;
    std::printf("the rules add %.3f ms, %s %.3f (the machine is %.1f times slower than an idle one)\n",
                result.added_ms,
                within ? "at most" : "MORE THAN",
                max_ms * slower,
                slower);
  }
  MeasureTypes(variants.front().path);
  Remove(variants);
  return within;
}

// An agent on the node, with rights on the blocks of the CRD's copies.
Caller NodeCaller(TestCluster& cluster) {
  constexpr const char* kRbac = "rbac.authorization.k8s.io";
  const json role = {{"metadata", {{"name", "policy-cost"}}},
                     {"rules", {{{"apiGroups", {"*"}}, {"resources", {"ipblocks"}}, {"verbs", {"patch"}}}}}};
  const json binding = {
      {"metadata", {{"name", "policy-cost"}}},
      {"roleRef", {{"apiGroup", kRbac}, {"kind", "ClusterRole"}, {"name", "policy-cost"}}},
      {"subjects", {{{"kind", "ServiceAccount"}, {"name", Account().name}, {"namespace", Account().name_space}}}}};
  for (const auto& [kind, object] : {std::pair("clusterroles", role), std::pair("clusterrolebindings", binding)}) {
    const Answer answer = Send(Method::kPost, std::string("/apis/") + kRbac + "/v1/" + kind, object);
    if (answer.status != 201 && answer.status != 409) Fail("create rights", answer);
  }
  k8sclient::ClientConfig config = AdminConfig();
  config.client_certificate = {};
  config.client_key = {};
  config.token.text = cluster.AgentToken(kNode);
  return Caller(config);
}

// Copies the policy on blocks for the variant's blocks, and waits until the copy is in force.
void CopyPolicy(const Caller& node, const Variant& variant) {
  for (json object : LoadObjects("install/base/policy-blocks.yaml")) {
    object["metadata"]["name"] = PolicyOf(variant);
    const bool is_policy = object["kind"] == "ValidatingAdmissionPolicy";
    if (is_policy) object["spec"]["matchConstraints"]["resourceRules"][0]["apiGroups"] = {GroupOf(variant)};
    if (!is_policy) object["spec"]["policyName"] = PolicyOf(variant);
    const Answer answer = Send(Method::kPost, is_policy ? kPolicies : kBindings, object);
    if (answer.status != 201) Fail("create policy", answer);
  }
  const json forbidden = {{"metadata", {{"labels", {{"a", "b"}}}}}};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (true) {
    const Answer answer = node.Send(Method::kPatch, variant.path + "?dryRun=All", forbidden, k8sclient::kMergePatch);
    if (answer.status == 422) return;
    if (std::chrono::steady_clock::now() >= deadline) Fail("the policy is not in force", answer);
  }
}

// Measures the policy. Returns whether it stays within its limits.
bool RunPolicy(const Options& options) {
  const char* const kubeconfig = std::getenv("KUBECONFIG");
  if (kubeconfig == nullptr) throw std::runtime_error("KUBECONFIG is not set");
  TestCluster cluster(kubeconfig);
  const Caller node = NodeCaller(cluster);
  std::vector<Variant> variants = {{.name = "own-bare"},
                                   {.name = "own", .has_policy = true},
                                   {.name = "shared-bare", .is_shared = true},
                                   {.name = "shared", .has_policy = true, .is_shared = true}};
  for (const Variant& variant : variants) CreateCrd(variant);
  for (Variant& variant : variants) CreateBlock(variant);
  for (const Variant& variant : variants) {
    if (variant.has_policy) CopyPolicy(node, variant);
  }
  bool within = false;
  for (int run = 0; run < kRunsMax && !within; ++run) {
    RunRounds(node, variants, options.rounds);
    std::ranges::sort(variants, {}, [](const Variant& v) { return std::pair(v.is_shared, v.has_policy); });
    const auto median = [&](std::size_t index) { return Median(variants[index].took_ms); };
    const double slower = Slowness(median(0));
    const double own_ms = median(1) - median(0);
    const double shared_ms = median(3) - median(2);
    within = options.max_ms <= 0 || (own_ms <= kOwnPolicyMaxMs * slower && shared_ms <= kSharedPolicyMaxMs * slower);
    std::printf(
        "the policy adds %.3f ms to a node's PATCH of its own block (at most %.2f), %.3f of a Shared one with %d "
        "entries (at most %.2f)%s; the machine is %.1f times slower than an idle one\n",
        own_ms,
        kOwnPolicyMaxMs * slower,
        shared_ms,
        kEntries,
        kSharedPolicyMaxMs * slower,
        within ? "" : ": TOO MUCH",
        slower);
  }
  Remove(variants);
  return within;
}

int Run(const Options& options) {
  const bool rules_are_within = RunRules(options);
  return RunPolicy(options) && rules_are_within ? 0 : 1;
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
