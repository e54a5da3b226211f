// SPDX-License-Identifier: Apache-2.0
// The five verbs over the engine and the direct store.
#include "cni-plugin/direct_call.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "cni/attachment.h"
#include "cni/resolv_conf.h"
#include "crds/names.h"
#include "k8sclient/client_config.h"
#include "k8sclient/kubeconfig.h"
#include "k8sclient/status.h"
#include "k8sclient/verbs.h"

namespace berth::cni_plugin {

namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

// Where kubeadm and others keep the kubelet's own credentials.
constexpr std::array kKubeletKubeconfigs = {"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig"};
constexpr std::string_view kNodeUserPrefix = "system:node:";
constexpr std::string_view kPoolsAnnotation = "ipam.berth.dev/pools";

Expected<std::string> FindKubeconfig(const std::string& configured) {
  if (!configured.empty()) return configured;
  for (const char* path : kKubeletKubeconfigs) {
    if (access(path, F_OK) == 0) return path;
  }
  return Fail(ErrorCode::kDecode,
              "ipam.kubeconfig is not set, and the kubelet's is neither at " + std::string(kKubeletKubeconfigs[0]) +
                  " nor at " + kKubeletKubeconfigs[1],
              "set ipam.kubeconfig to the path of a kubeconfig");
}

Expected<std::string> FindNodeName(const std::string& configured, const k8sclient::ClientConfig& client) {
  if (!configured.empty()) return configured;
  const auto user = k8sclient::UserName(client, k8sclient::ReadWholeFile);
  if (user && user->starts_with(kNodeUserPrefix)) return user->substr(kNodeUserPrefix.size());
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') {
    return Fail(ErrorCode::kInvalid, "the node's name cannot be told", "set ipam.nodeName");
  }
  std::string name = host.data();
  // As the kubelet registers it.
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

// A kubeconfig that is missing, unreadable or wrong is "failed to decode content" to the caller.
std::unexpected<ipam::Error> KubeconfigError(ipam::Error error) {
  if (error.code == ErrorCode::kIo || error.code == ErrorCode::kInvalid) error.code = ErrorCode::kDecode;
  if (error.details.empty()) error.details = "correct ipam.kubeconfig in the network configuration";
  return std::unexpected(error.Within("kubeconfig"));
}

std::string HostSafe(std::string_view node) {
  std::string safe(node);
  std::ranges::replace(safe, '/', '_');
  return safe;
}

// "a, b" of a pod's annotation.
std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.emplace_back(name);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return names;
}

}  // namespace

DirectCall::DirectCall(const cni::Environment& environment, const cni::NetworkConfig& config, BootNanos started,
                       NodeDirectory directory)
    : environment_(environment),
      config_(config),
      started_(started),
      attachment_(cni::MakeAttachment(config.name, environment.container_id, environment.ifname)),
      directory_(std::move(directory)),
      runtime_(config.ipam.timeout, environment.verb == cni::Verb::kAdd ? getppid() : 0) {}

Expected<std::unique_ptr<DirectCall>> DirectCall::Make(const cni::Environment& environment,
                                                       const cni::NetworkConfig& config, BootNanos started) {
  const auto path = FindKubeconfig(config.ipam.kubeconfig);
  if (!path) return std::unexpected(path.error());
  auto client = k8sclient::LoadKubeconfig({*path}, /*context=*/"", k8sclient::ReadWholeFile);
  if (!client) return KubeconfigError(client.error());
  const auto node = FindNodeName(config.ipam.node_name, *client);
  if (!node) return std::unexpected(node.error());
  auto directory = NodeDirectory::Open(config.ipam.state_dir, HostSafe(*node), client->server);
  if (!directory) return std::unexpected(directory.error());
  auto api = k8sclient::HttpApi::Make(*std::move(client), {.user_agent = "berth-direct"});
  if (!api) return KubeconfigError(api.error());

  std::unique_ptr<DirectCall> call(new DirectCall(environment, config, started, *std::move(directory)));
  call->api_ = *std::move(api);
  const auto timeout_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(config.ipam.timeout).count();
  DirectStoreOptions options{
      .node = *node, .call = call->runtime_.RequestOptions(), .lock_deadline = BootTimeNow() + timeout_ns * 4 / 5};
  if (environment.verb == cni::Verb::kAdd) {
    options.on_locked = [raw = call.get()]() -> Expected<void> {
      const auto deleted = raw->directory_.DeletedAt(raw->attachment_);
      if (!deleted || raw->started_ >= *deleted) return {};
      return Fail(ErrorCode::kTimeout, "a DEL of this container came after this ADD was started: nothing is allocated");
    };
  }
  call->store_ = std::make_unique<DirectStore>(*call->api_, call->directory_, call->runtime_, std::move(options));
  call->engine_ = std::make_unique<ipam::Engine>(*call->store_, call->runtime_);
  return call;
}

Expected<ipam::AddRequest> DirectCall::MakeAddRequest() const {
  const auto args = cni::ParseArgs(environment_.args, cni::Verb::kAdd);
  if (!args) return std::unexpected(args.error());
  auto requested = cni::RequestedAddresses(config_, *args);
  if (!requested) return std::unexpected(requested.error());
  ipam::AddRequest request{.attachment = attachment_,
                           .interface = environment_.ifname,
                           .pod_namespace = args->pod_namespace,
                           .pod = args->pod_name,
                           .uid = args->pod_uid,
                           .pools = config_.ipam.pools,
                           .requested = *std::move(requested)};
  auto chosen = config_.annotations.find(std::string(kPoolsAnnotation) + "." + environment_.ifname);
  if (chosen == config_.annotations.end() && environment_.ifname == "eth0") {
    chosen = config_.annotations.find(std::string(kPoolsAnnotation));
  }
  if (chosen != config_.annotations.end()) request.pools = SplitNames(chosen->second);
  if (request.pools.empty()) {
    return Fail(ErrorCode::kInvalid,
                "no pool is named: ipam.pools is missing or empty",
                "name at least one IPPool in ipam.pools; see: kubectl get ippools");
  }
  return request;
}

Expected<std::string> DirectCall::PrintResult(const ipam::AddResult& added) const {
  cni::Result result{.addresses = {}, .routes = added.routes, .dns = added.dns};
  for (const ipam::AssignedAddress& assigned : added.addresses) {
    result.addresses.push_back(
        {.address = assigned.address, .prefix_length = assigned.prefix_length, .gateway = assigned.gateway});
  }
  if (config_.ipam.routes) result.routes = *config_.ipam.routes;
  if (config_.ipam.dns) {
    result.dns = *config_.ipam.dns;
  } else if (!config_.ipam.resolv_conf.empty()) {
    const auto text = k8sclient::ReadWholeFile(config_.ipam.resolv_conf);
    if (!text) return std::unexpected(text.error().Within("ipam.resolvConf"));
    result.dns = cni::ParseResolvConf(*text);
  }
  return cni::ResultJson(result, config_.version);
}

Expected<std::string> DirectCall::Add() {
  const auto request = MakeAddRequest();
  if (!request) return std::unexpected(request.error());
  if (!config_.ipam.resolv_conf.empty()) {
    // Before anything is taken.
    if (const auto text = k8sclient::ReadWholeFile(config_.ipam.resolv_conf); !text) {
      return std::unexpected(text.error().Within("ipam.resolvConf"));
    }
  }
  auto running = directory_.HoldRunning(attachment_);
  if (!running) return std::unexpected(running.error());
  running_ = *std::move(running);
  auto added = engine_->Add(*request);
  if (!added) {
    directory_.ForgetRunning(attachment_);
    return std::unexpected(added.error());
  }
  took_ = added->took;
  auto text = PrintResult(*added);
  if (!text) {
    if (const auto taken_back = TakeBackAdd(); !taken_back) {
      ipam::Error error = text.error();
      error.details += "; giving the address back: " + taken_back.error().message;
      return std::unexpected(std::move(error));
    }
    return text;
  }
  store_->Unlock();
  return text;
}

Expected<void> DirectCall::TakeBackAdd() {
  directory_.ForgetRunning(attachment_);
  if (!took_) return {};
  if (auto locked = store_->Lock(); !locked) return locked;
  return engine_->Del(attachment_);
}

Expected<void> DirectCall::Del() {
  // First the lock: an ADD of this attachment that runs gets to its end, and its intents are seen if it dies.
  if (auto locked = store_->Lock(); !locked) return locked;
  if (auto marked = directory_.MarkDeleted(attachment_, started_); !marked) return marked;
  directory_.ForgetRunning(attachment_);
  return engine_->Del(attachment_);
}

Expected<void> DirectCall::Check() {
  const auto held = engine_->Held(attachment_);
  if (!held) return std::unexpected(held.error());
  if (held->empty()) {
    return Fail(ErrorCode::kInvalid,
                "container " + environment_.container_id + " interface " + environment_.ifname +
                    " holds no address of network " + config_.name,
                "its address was given back, or the container was attached by another plugin");
  }
  const std::string whose = " of container " + environment_.container_id + " interface " + environment_.ifname;
  for (const ipam::HeldAddress& own : *held) {
    const auto previous = std::ranges::find(config_.previous, own.address, &cni::PreviousAddress::address);
    if (previous == config_.previous.end()) {
      return Fail(ErrorCode::kInvalid, "address " + own.address.ToString() + whose + " is not in prevResult");
    }
    if (!previous->gateway) continue;
    const auto pools = store_->ReadPools({{own.pool}}, ipam::Freshness::kHint);
    if (!pools) return std::unexpected(pools.error());
    if (pools->empty() || !pools->front().gateway || pools->front().gateway == previous->gateway) continue;
    return Fail(ErrorCode::kInvalid,
                "gateway " + previous->gateway->ToString() + whose + " in prevResult is not that of pool " + own.pool +
                    ", " + pools->front().gateway->ToString());
  }
  return {};
}

Expected<void> DirectCall::Gc() {
  // Nobody said which attachments are valid: then none may be freed.
  if (!config_.valid_attachments) return {};
  const std::string network = cni::NetworkDigits(config_.name);
  std::set<ipam::Attachment> valid;
  for (const cni::ValidAttachment& attachment : *config_.valid_attachments) {
    valid.insert(cni::MakeAttachment(config_.name, attachment.container_id, attachment.ifname));
  }
  const auto keep = [&](const ipam::Attachment& attachment) {
    return valid.contains(attachment) || directory_.IsRunning(attachment);
  };
  if (auto locked = store_->Lock(); !locked) return locked;
  std::vector<ipam::Error> errors = engine_->CollectGarbage(network, keep);
  const auto intents = directory_.ReadIntents(network);
  if (!intents) errors.push_back(intents.error());
  if (intents) {
    for (const ipam::OpenIntent& intent : *intents) {
      if (keep(intent.attachment)) continue;
      if (const auto settled = engine_->Del(intent.attachment); !settled) errors.push_back(settled.error());
    }
  }
  if (errors.empty()) return {};
  ipam::Error all = errors.front();
  all.message = std::to_string(errors.size()) + " releases failed: " + all.message;
  for (std::size_t i = 1; i < errors.size(); ++i) all.message += "; " + errors[i].message;
  return std::unexpected(std::move(all));
}

Expected<void> DirectCall::Status() {
  // Any answer that needs the kind and the right to read it will do; a full pool is no reason to take the node away.
  const k8sclient::Request request{.path = std::string(crds::kPoolsPath),
                                   .query = {{"limit", "1"}, {"resourceVersion", "0"}},
                                   .accept = k8sclient::kPartialMetadataList};
  const auto response = api_->Call(request, runtime_.RequestOptions());
  ipam::Error error;
  if (!response) {
    error = response.error();
  } else if (!response->ok()) {
    error = k8sclient::ToError(request, *response);
  } else {
    return {};
  }
  error.code = ErrorCode::kNotReady;
  return std::unexpected(error.Within("no ADD can be served"));
}

}  // namespace berth::cni_plugin
