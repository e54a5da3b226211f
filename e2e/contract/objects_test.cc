// SPDX-License-Identifier: Apache-2.0
// Runs the tables of e2e/crds/objects on the model: it accepts and refuses the same objects as a real API server.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/contract/client.h"
#include "e2e/crds/object_cases.h"
#include "k8sclient/testing/model_api.h"
#include "k8sclient/testing/model_policy.h"

namespace berth::e2e {
namespace {

using nlohmann::json;

// The cases of a file, without the cases about unknown fields: the model drops unknown fields, and a real API server
// refuses them only with strict field validation, with which e2e/crds sends the tables.
std::vector<ObjectCase> CasesFor(const std::string& file) {
  std::vector<ObjectCase> cases = LoadCases("e2e/crds/objects/" + file);
  std::erase_if(cases, [](const ObjectCase& c) {
    return !c.refused.empty() && c.refused[0].find("unknown field") != std::string::npos;
  });
  return cases;
}

class ModelObjects : public ::testing::TestWithParam<ObjectCase> {};

TEST_P(ModelObjects, AreTakenOrRefused) {
  k8sclient::testing::ModelApi api;
  ContractClient client(api, "");
  for (const json& object : LoadObjects("e2e/crds/objects/base.yaml")) client.Created(object);
  const ObjectCase& c = GetParam();
  const std::string name_space = c.patch.starts_with("ipallocations/") ? "namespaces/default/" : "";
  const Said said = c.patch.empty() ? client.Create(c.document)
                                    : client.Patch("/apis/ipam.berth.dev/v1alpha1/" + name_space + c.patch, c.document);
  EXPECT_EQ(said.ok(), c.accepted) << said.body;
}

// As the real one's, but that an agent of any account and a kubelet are the node of their credentials.
std::string WriterOf(const std::string& as) {
  const std::string who = as.substr(0, as.find(' '));
  if (who == "pod" || who == "node" || who == "renamed" || who == "kubelet") return "node" + as.substr(who.size());
  return who == "impostor" ? "unbound" : who;
}

class ModelPolicy : public ::testing::TestWithParam<ObjectCase> {};

TEST_P(ModelPolicy, ConfinesEverybodyToWhatIsTheirs) {
  k8sclient::testing::ModelApi api;
  ContractClient client(api, "");
  for (const json& object : LoadObjects("e2e/crds/objects/policy-base.yaml")) client.Created(object);
  const ObjectCase& c = GetParam();
  api.OnAdmission([&](const std::string& collection, const json& before, const json& after) {
    return collection == crds::kBlocksPath
               ? k8sclient::testing::RefusalByPolicy(k8sclient::testing::WriterOf(WriterOf(c.as)), before, after)
               : std::nullopt;
  });
  const std::string path = "/apis/ipam.berth.dev/v1alpha1/" + (c.patch.empty() ? c.remove : c.patch);
  const Said said = !c.remove.empty()  ? client.Delete(path)
                    : !c.patch.empty() ? client.Patch(path, c.document)
                                       : client.Create(c.document);
  EXPECT_EQ(said.ok(), c.accepted) << said.body;
  for (const std::string& text : c.refused) EXPECT_THAT(said.body.value("message", ""), ::testing::HasSubstr(text));
}

// The policies of other kinds are not modelled, and that `spec` stays as it is the CRD says.
std::vector<ObjectCase> CasesOfBlocks() {
  std::vector<ObjectCase> cases = LoadCases("e2e/crds/objects/policy.yaml");
  std::erase_if(cases, [](const ObjectCase& c) {
    const std::string target = c.patch.empty() ? c.remove : c.patch;
    if (c.document.is_object() && !c.patch.empty() && c.document.contains("spec")) return true;
    return target.empty() ? c.document.value("kind", "") != "IPBlock" : !target.starts_with("ipblocks/");
  });
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<ObjectCase>& c) { return c.param.name; }

INSTANTIATE_TEST_SUITE_P(Pool, ModelObjects, ::testing::ValuesIn(CasesFor("ippool.yaml")), CaseName);
INSTANTIATE_TEST_SUITE_P(Block, ModelObjects, ::testing::ValuesIn(CasesFor("ipblock.yaml")), CaseName);
INSTANTIATE_TEST_SUITE_P(Blocks, ModelPolicy, ::testing::ValuesIn(CasesOfBlocks()), CaseName);
INSTANTIATE_TEST_SUITE_P(Others, ModelObjects, ::testing::ValuesIn(CasesFor("others.yaml")), CaseName);

}  // namespace
}  // namespace berth::e2e
