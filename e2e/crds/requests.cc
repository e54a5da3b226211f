// SPDX-License-Identifier: Apache-2.0
// Sends the requests of tests.
#include "e2e/crds/requests.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "base/places.h"
#include "crds/names.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"

namespace berth::e2e {

namespace {

constexpr std::chrono::seconds kRequestMax{30};

// Throws, because the test cannot continue.
[[noreturn]] void Fail(const std::string& message) { throw std::runtime_error("e2e/crds: " + message); }

// A request whose path and query come from `path`.
k8sclient::Request RequestFor(k8sclient::Method method, const std::string& path) {
  const std::size_t question = path.find('?');
  k8sclient::Request request{.method = method, .path = path.substr(0, question)};
  if (question == std::string::npos) return request;
  std::istringstream parts(path.substr(question + 1));
  for (std::string part; std::getline(parts, part, '&');) {
    const std::size_t equals = part.find('=');
    request.query.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return request;
}

}  // namespace

k8sclient::ClientConfig AdminConfig() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (variable("BERTH_E2E_DIR").empty() && variable("BERTH_USE_EXISTING_CLUSTER") != "1") {
    Fail("no test cluster: run e2e/crds.sh, or eval \"$(e2e/cluster env --dir DIR)\" first");
  }
  auto config =
      k8sclient::LoadKubeconfig(k8sclient::SplitKubeconfigList(variable("KUBECONFIG")), "", k8sclient::ReadWholeFile);
  if (!config) Fail(config.error().message);
  return *std::move(config);
}

Caller::Caller(const k8sclient::ClientConfig& config) {
  auto api = k8sclient::MakeHttpApi(config);
  if (!api) Fail(api.error().message);
  api_ = std::move(*api);
}

Answer Caller::Call(const k8sclient::Request& request) const {
  const auto response = api_->Call(request, k8sclient::CallOptions::Within(kRequestMax));
  if (!response) Fail(std::string(ToString(request.method)) + " " + request.path + ": " + response.error().message);
  return {.status = response->status,
          .body = nlohmann::json::parse(response->body, nullptr, /*allow_exceptions=*/false),
          .bytes = response->body.size()};
}

Answer Caller::Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body,
                    std::string_view content_type) const {
  k8sclient::Request request = RequestFor(method, path);
  request.body = body.dump();
  request.content_type = content_type;
  return Call(request);
}

Answer Caller::Get(const std::string& path, std::string_view accept) const {
  k8sclient::Request request = RequestFor(k8sclient::Method::kGet, path);
  request.accept = accept;
  return Call(request);
}

namespace {

const Caller& Admin() {
  static const Caller kAdmin(AdminConfig());
  return kAdmin;
}

}  // namespace

Answer Send(k8sclient::Method method, const std::string& path, const nlohmann::json& body,
            std::string_view content_type) {
  return Admin().Send(method, path, body, content_type);
}

Answer Get(const std::string& path, std::string_view accept) { return Admin().Get(path, accept); }

std::string CollectionOf(const nlohmann::json& object) {
  const auto kind = object.value("kind", "");
  if (kind == crds::kPoolKind) return std::string(crds::kPoolsPath);
  if (kind == crds::kSpaceKind) return std::string(crds::kSpacesPath);
  if (kind == crds::kBlockKind) return std::string(crds::kBlocksPath);
  if (kind == crds::kReservationKind) return std::string(crds::kReservationsPath);
  if (kind == crds::kAllocationKind) {
    return std::string(crds::kNamespacesPath) + "/" + object["metadata"]["namespace"].get<std::string>() + "/" +
           std::string(crds::kAllocationsResource);
  }
  const std::string name_space = "namespaces/" + object["metadata"].value("namespace", "") + "/";
  const std::string admission = "/apis/admissionregistration.k8s.io/v1/";
  if (kind == "Node") return "/api/v1/nodes";
  if (kind == "Namespace") return "/api/v1/namespaces";
  if (kind == "Pod") return "/api/v1/" + name_space + "pods";
  if (kind == "LimitRange") return "/api/v1/" + name_space + "limitranges";
  if (kind == "ResourceQuota") return "/api/v1/" + name_space + "resourcequotas";
  if (kind == "PriorityClass") return "/apis/scheduling.k8s.io/v1/priorityclasses";
  if (kind == "MutatingAdmissionPolicy") return admission + "mutatingadmissionpolicies";
  if (kind == "MutatingAdmissionPolicyBinding") return admission + "mutatingadmissionpolicybindings";
  Fail("no collection for kind \"" + kind + "\"");
}

std::string ReadSource(const std::string& path) {
  const std::ifstream file(SourceDir() + "/" + path);
  if (!file) Fail("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace berth::e2e
