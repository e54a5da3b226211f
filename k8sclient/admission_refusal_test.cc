// SPDX-License-Identifier: Apache-2.0
// Whether admission refused a request because of its content, or the authorizer refused it because of its sender. The
// messages are from kube-apiserver 1.36 (status.cc names the functions that make them).
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/status.h"

namespace berth::k8sclient {
namespace {

constexpr char kWebhook[] = R"(admission webhook "validation.gatekeeper.sh" denied the request: [names] no such names)";
constexpr char kWebhookWithoutExplanation[] =
    R"(admission webhook "x.example.com" denied the request without explanation)";
constexpr char kValidatingPolicy[] =
    R"(ipblocks.ipam.berth.dev "10.55.0.0-26" is forbidden: ValidatingAdmissionPolicy 'blocks.example.com' with binding )"
    R"('blocks' denied request: no entry may name this pod)";
constexpr char kPolicyWithoutBinding[] =
    R"(ipblocks.ipam.berth.dev "10.55.0.0-26" is forbidden: ValidatingAdmissionPolicy 'blocks.example.com' denied )"
    R"(request: failed to configure policy: no such kind)";
constexpr char kMutatingPolicy[] = R"(policy 'labels.example.com' with binding 'labels' denied request: no such label)";
constexpr char kMutatingPolicyWithoutBinding[] = R"(policy "labels.example.com" denied request: no such label)";
constexpr char kMissingRight[] =
    R"(ipblocks.ipam.berth.dev "10.55.0.0-26" is forbidden: User "system:serviceaccount:berth-system:berth-agent" )"
    R"(cannot patch resource "ipblocks" in API group "ipam.berth.dev" at the cluster scope)";
constexpr char kMissingRightWithAReason[] =
    R"(ipblocks.ipam.berth.dev is forbidden: User "jane" cannot list resource "ipblocks" in API group "ipam.berth.dev" at )"
    R"(the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "admission webhook" not found)";
constexpr char kUserOfThatName[] =
    R"(ipblocks.ipam.berth.dev "a" is forbidden: User "ValidatingAdmissionPolicy 'x' denied request: " cannot patch )"
    R"(resource "ipblocks" in API group "ipam.berth.dev" at the cluster scope)";
constexpr char kUnready[] = R"(ipblocks.ipam.berth.dev "10.55.0.0-26" is forbidden: not yet ready to handle request)";
constexpr char kWebhookAway[] =
    R"(Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: Post )"
    R"("https://x.default.svc:443/?timeout=10s": dial tcp 10.96.1.1:443: connect: connection refused)";
constexpr char kDatabaseFull[] = R"(etcdserver: mvcc: database space exceeded)";
constexpr char kWebhookConflict[] = R"(admission webhook "x.example.com" denied the request: try another name)";

struct RefusalCase {
  const char* name;
  int status;
  const char* message;
  ErrorCode want;
};

class Refusal : public ::testing::TestWithParam<RefusalCase> {};

TEST_P(Refusal, SaysWhetherTheContentOrTheSenderIsToBlame) {
  const std::string body = nlohmann::json{
      {"kind", "Status"},
      {"apiVersion", "v1"},
      {"status", "Failure"},
      {"message", GetParam().message},
      {"code",
       GetParam().status}}.dump();
  const Error error = ToError({.method = Method::kPatch, .path = "/a"}, {.status = GetParam().status, .body = body});
  EXPECT_EQ(ToString(error.code), ToString(GetParam().want)) << error.message;
}

constexpr RefusalCase kRefusalCases[] = {
    {"Webhook", 403, kWebhook, ErrorCode::kInvalid},
    {"WebhookWithoutACode", 400, kWebhookWithoutExplanation, ErrorCode::kInvalid},
    {"WebhookThatSaysUnauthorized", 401, kWebhook, ErrorCode::kInvalid},
    {"WebhookThatSaysNotFound", 404, kWebhook, ErrorCode::kInvalid},
    {"WebhookThatSaysConflict", 409, kWebhookConflict, ErrorCode::kInvalid},
    {"WebhookThatSaysInternalError", 500, kWebhook, ErrorCode::kInvalid},
    {"WebhookThatSaysLater", 429, kWebhook, ErrorCode::kUnavailable},
    {"WebhookThatCannotBeReached", 500, kWebhookAway, ErrorCode::kUnknownOutcome},
    {"DatabaseThatIsFull", 500, kDatabaseFull, ErrorCode::kUnknownOutcome},
    {"ValidatingPolicy", 422, kValidatingPolicy, ErrorCode::kInvalid},
    {"ValidatingPolicyThatSaysForbidden", 403, kValidatingPolicy, ErrorCode::kInvalid},
    {"ValidatingPolicyThatSaysUnauthorized", 401, kValidatingPolicy, ErrorCode::kInvalid},
    {"ValidatingPolicyThatIsBroken", 422, kPolicyWithoutBinding, ErrorCode::kInvalid},
    {"MutatingPolicy", 403, kMutatingPolicy, ErrorCode::kInvalid},
    {"MutatingPolicyWithoutABinding", 403, kMutatingPolicyWithoutBinding, ErrorCode::kInvalid},
    {"AdmissionThatIsNotReady", 403, kUnready, ErrorCode::kUnavailable},
    {"MissingRight", 403, kMissingRight, ErrorCode::kForbidden},
    {"MissingRightWithAReason", 403, kMissingRightWithAReason, ErrorCode::kForbidden},
    {"MissingRightOfAUserNamedLikeAPolicy", 403, kUserOfThatName, ErrorCode::kForbidden},
};
INSTANTIATE_TEST_SUITE_P(Table, Refusal, ::testing::ValuesIn(kRefusalCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
