// SPDX-License-Identifier: Apache-2.0
// Serves ADD, DEL, CHECK, GC and STATUS with ipam::Engine and node::DirectStore.
#include "cni-plugin/direct_call.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <unistd.h>
#include <utility>

#include "cni/attachment.h"
#include "cni/pool_names.h"
#include "crds/names.h"
#include "k8sclient/client_config.h"
#include "k8sclient/clock.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"
#include "k8sclient/openssl.h"
#include "k8sclient/status.h"
#include "k8sclient/verbs.h"
#include "node/node_mode.h"

namespace berth::cni_plugin {

namespace {

// Paths at which kubeadm and other distributions keep the kubelet's kubeconfig.
constexpr std::array kKubeletKubeconfigs = {"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig"};
constexpr std::string_view kNodeUserPrefix = "system:node:";
// Name of the note in which a process tells the next process about the API server's clock.
constexpr const char* kClockNote = "api-server-clock";

Expected<std::string> FindKubeconfig(const std::string& configured) {
  if (!configured.empty()) return configured;
  for (const char* path : kKubeletKubeconfigs) {
    if (access(path, F_OK) == 0) return path;
  }
  return Fail(ErrorCode::kDecode,
              "ipam.kubeconfig is not set, and the kubelet's kubeconfig is neither at " +
                  std::string(kKubeletKubeconfigs[0]) + " nor at " + kKubeletKubeconfigs[1],
              "set ipam.kubeconfig to the path of a kubeconfig");
}

std::string HostName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return {};
  std::string name = host.data();
  // In lower case: the kubelet registers its Node under the host's name in lower case.
  std::ranges::transform(
      name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

// berth-direct creates a folder with the node's name, so a configuration must not name another node than the
// credentials.
Expected<std::string> FindNodeName(const std::string& configured, const k8sclient::ClientConfig& client) {
  const auto user = k8sclient::UserName(client, k8sclient::ReadWholeFile);
  const bool is_node = user && user->starts_with(kNodeUserPrefix);
  std::string name = is_node ? user->substr(kNodeUserPrefix.size()) : configured.empty() ? HostName() : configured;
  if (!configured.empty() && name != configured) {
    return Fail(ErrorCode::kInvalid,
                "ipam.nodeName is " + Quoted(configured) + ", but the credentials are of the node " + Quoted(name),
                "leave ipam.nodeName out");
  }
  if (cni::IsObjectName(name, cni::kNodeNameBytesMax)) return name;
  return Fail(ErrorCode::kInvalid, Quoted(name) + " cannot be the name of a node", "set ipam.nodeName");
}

// If the kubeconfig is missing, unreadable or wrong, the caller gets "failed to decode content" (CNI code 6).
std::unexpected<Error> KubeconfigError(Error error) {
  if (error.code == ErrorCode::kIo || error.code == ErrorCode::kInvalid) error.code = ErrorCode::kDecode;
  if (error.details.empty()) error.details = "correct ipam.kubeconfig in the network configuration";
  return std::unexpected(error.Within("kubeconfig"));
}

}  // namespace

Expected<DirectPlace> FindDirectPlace(const cni::NetworkConfig& config) {
  if (auto mode = node::RequireMode(config.ipam.state_dir, node::NodeMode::kDirect); !mode) {
    return std::unexpected(mode.error());
  }
  auto state = node::Folder::Open(config.ipam.state_dir);
  if (!state) return std::unexpected(state.error());
  k8sclient::StartOpenSsl();
  const auto path = FindKubeconfig(config.ipam.kubeconfig);
  if (!path) return std::unexpected(path.error());
  auto client = k8sclient::LoadKubeconfig({*path}, /*context=*/"", k8sclient::ReadWholeFile);
  if (!client) return KubeconfigError(client.error());
  auto node = FindNodeName(config.ipam.node_name, *client);
  if (!node) return std::unexpected(node.error());
  const std::string& socket = config.ipam.agent_socket;
  auto directory = node::NodeDirectory::Open(socket.substr(0, socket.rfind('/')), *node, client->server);
  if (!directory) return std::unexpected(directory.error());
  auto api = k8sclient::MakeHttpApi(*std::move(client), {.user_agent = "berth-direct"});
  if (!api) return KubeconfigError(api.error());
  return DirectPlace{
      .node = *std::move(node), .state = *std::move(state), .directory = *std::move(directory), .api = *std::move(api)};
}

DirectCall::DirectCall(const cni::Environment& environment, const cni::NetworkConfig& config, node::BootNanos started,
                       DirectPlace place)
    : environment_(environment),
      config_(config),
      started_(started),
      lock_deadline_(node::BootTimeNow() + std::chrono::nanoseconds(config.ipam.timeout).count() * 4 / 5),
      place_(std::move(place)),
      clock_(k8sclient::RealClock(), [this](const std::string& note) { place_.directory.WriteNote(kClockNote, note); }),
      api_(*place_.api, clock_),
      runtime_(config.ipam.timeout, environment.verb == cni::Verb::kAdd ? getppid() : 0, clock_),
      store_(api_, place_.directory, runtime_, StoreOptions()),
      call_(environment, config, store_, runtime_) {}

node::DirectStoreOptions DirectCall::StoreOptions() {
  node::DirectStoreOptions options{.node = place_.node, .call = runtime_.RequestOptions()};
  options.on_unreadable = [](const Error& error) {
    std::fprintf(stderr, "berth-direct: block cannot be read, so it is not used: %s\n", error.message.c_str());
  };
  options.attachment = cni::MakeAttachment(config_.name, environment_.container_id, environment_.ifname);
  if (environment_.verb == cni::Verb::kDel) options.recent = node::RecentUse::kIfItHolds;
  if (environment_.verb == cni::Verb::kAdd) options.recent = node::RecentUse::kUnlessItHolds;
  return options;
}

Expected<std::string> DirectCall::Serve() {
  const auto silent = [](const Expected<void>& outcome) -> Expected<std::string> {
    if (!outcome) return std::unexpected(outcome.error());
    return std::string();
  };
  switch (environment_.verb) {
    case cni::Verb::kAdd:
      return Add();
    case cni::Verb::kDel:
      return silent(Del());
    case cni::Verb::kCheck:
      return silent(Check());
    case cni::Verb::kGc:
      return silent(Gc());
    case cni::Verb::kStatus:
      return silent(Status());
    case cni::Verb::kAbout:
    case cni::Verb::kVersion:
      break;
  }
  return Fail(ErrorCode::kInternal, "berth-direct does not serve this verb");
}

Expected<void> DirectCall::EnterTurn() {
  auto locked = place_.directory.Lock(lock_deadline_);
  if (!locked) return std::unexpected(locked.error());
  lock_ = *std::move(locked);
  // Read the note now, with the lock: the previous call wrote the note while it had the lock, and may have been the
  // first call that got an answer from the API server.
  clock_.Recall(place_.directory.ReadNote(kClockNote).value_or(std::string()));
  // An agent takes the lock before it reads any block. If the mode has become `agent` while this call waited for the
  // lock, this call must stop.
  if (auto mode = node::RequireMode(place_.state, node::NodeMode::kDirect); !mode) return mode;
  if (environment_.verb != cni::Verb::kAdd) return {};
  const auto deleted = place_.directory.DeletedAt(attachment());
  if (!deleted) return std::unexpected(deleted.error());
  if (!*deleted || started_ >= **deleted) return {};
  return Fail(ErrorCode::kTimeout, "a DEL of this container came after this ADD was started: nothing is allocated");
}

Expected<std::string> DirectCall::Add() {
  const auto request = call_.MakeAddRequest();
  if (!request) return std::unexpected(request.error());
  auto running = place_.directory.HoldRunning(attachment());
  if (!running) return std::unexpected(running.error());
  running_ = *std::move(running);
  const auto entered = EnterTurn();
  auto answer = entered ? call_.Add(*request) : std::unexpected(entered.error());
  if (!answer) {
    EndRunning();
    return std::unexpected(answer.error());
  }
  is_new_ = answer->is_new;
  store_.LockReleased();
  lock_.Close();
  return std::move(answer->text);
}

void DirectCall::EndRunning() {
  running_.Close();
  place_.directory.ForgetRunning(attachment());
}

Expected<void> DirectCall::TakeBackAdd() {
  EndRunning();
  if (!is_new_) return {};
  if (auto entered = EnterTurn(); !entered) return entered;
  return call_.engine().Del(attachment());
}

Expected<void> DirectCall::Check() {
  if (auto entered = EnterTurn(); !entered) return entered;
  return call_.Check();
}

Expected<void> DirectCall::Del() {
  // Take the lock first: a running ADD of this attachment then ends before this DEL, and if the ADD's process dies,
  // this DEL sees its intents.
  if (auto entered = EnterTurn(); !entered) return entered;
  // Without the mark, an ADD that started before this DEL but gets the lock after it may take an address, which the
  // controller frees later.
  if (const auto marked = place_.directory.MarkDeleted(attachment(), started_); !marked) {
    std::fprintf(stderr, "berth-direct: cannot record this DEL: %s\n", marked.error().message.c_str());
  }
  place_.directory.ForgetRunning(attachment());
  return call_.engine().Del(attachment());
}

Expected<void> DirectCall::Gc() {
  if (auto entered = EnterTurn(); !entered) return entered;
  // The runtime made its list of attachments before this process started. The list may lack an ADD that was running at
  // that time, and lacks every ADD that started later. Read these ADDs after this call has got the lock: until it has
  // the lock, other ADDs may write entries.
  const auto running = place_.directory.ReadRunning(started_);
  if (!running) return std::unexpected(running.error());
  const auto intents = place_.directory.ReadIntents("");
  if (!intents) return std::unexpected(intents.error());
  return call_.CollectGarbage(
      [this] {
        const auto now = clock_.WallNow();
        return node::StartMillis(now, node::BootTimeNow() - started_);
      },
      [&running](const ipam::Attachment& attachment) { return running->contains(attachment); },
      [&intents] {
        std::vector<ipam::Attachment> unsettled;
        for (const ipam::OpenIntent& intent : *intents) unsettled.push_back(intent.attachment);
        return unsettled;
      });
}

Expected<void> DirectCall::Status() {
  // This request succeeds if the CRD exists and the node may list pools. Status does not look at free addresses,
  // because a full pool must not make the node NotReady.
  const k8sclient::Request request{.path = std::string(crds::kPoolsPath),
                                   .query = {{"limit", "1"}, {"resourceVersion", "0"}},
                                   .accept = k8sclient::kPartialMetadataList};
  const auto response = api_.Call(request, runtime_.RequestOptions());
  Error error;
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
