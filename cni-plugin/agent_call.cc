// SPDX-License-Identifier: Apache-2.0
// Sends the call, and handles the answer.
#include "cni-plugin/agent_call.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <optional>
#include <sys/stat.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "cni-plugin/agent_socket.h"
#include "cni-plugin/netns.h"
#include "cni/forward.h"
#include "cni/resolv_conf.h"
#include "json/field_reader.h"
#include "json/ordered_tree.h"
#include "node/del_queue.h"
#include "node/node_mode.h"

namespace berth::cni_plugin {
namespace {

using cni::Verb;
using std::chrono::seconds;

constexpr std::string_view kProgram = "berth";

// How long `berth` waits until an agent listens, for example while the agent restarts.
constexpr seconds kAgentWait{10};
// A runtime sends a STATUS every few seconds, and does nothing else while it waits for the answer.
constexpr seconds kStatusTime{5};
// The agent also ends a call after ipam.timeoutSeconds, and its error says what the call waited for. `berth` waits 1 s
// longer, so that it gets this error.
constexpr seconds kGrace{1};
constexpr seconds kTakeBackTime{2};

constexpr std::size_t kResolvConfBytesMax = std::size_t{1} << 20;
constexpr int kServed = 200;

// The time limit of the call's verb.
seconds TimeFor(const PluginCall& call) {
  const seconds configured = call.config.ipam.timeout;
  return call.environment.verb == Verb::kStatus ? std::min(configured, kStatusTime) : configured;
}

bool HasLoadedSinceBoot(const cni::IpamConfig& ipam) {
  const std::string mark = ipam.agent_socket + std::string(cni::kLoadedMarkSuffix);
  return access(mark.c_str(), F_OK) == 0;
}

bool IsObject(std::string_view text) {
  const auto value = ParseJson(text, {});
  return value && value->is_object();
}

// True if callers can read the error: if `code` is not a number, callers ignore `code` and `msg`.
bool IsCniError(std::string_view text) {
  constexpr std::array<std::string_view, 2> kMembers = {"code", "msg"};
  const auto value = ParseJson(text, kMembers);
  if (!value) return false;
  Problem problem;
  const AnyCaseReader error(*value, problem);
  return error.Integer("code", 1, std::numeric_limits<std::uint32_t>::max()) && !error.String("msg").empty();
}

// Reads a file of the host, which the agent in its container cannot see.
Expected<ipam::Dns> ReadResolvConf(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return Fail(ErrorCode::kIo, "ipam.resolvConf: read " + Quoted(path) + ": " + std::strerror(errno));
  }
  const auto text = ReadAll(file.descriptor(), kResolvConfBytesMax, Quoted(path));
  if (!text) return std::unexpected(text.error().Within("ipam.resolvConf"));
  if (text->size() > kResolvConfBytesMax) {
    return Fail(ErrorCode::kIo, "ipam.resolvConf: " + Quoted(path) + " is larger than 1 MiB");
  }
  return cni::ParseResolvConf(*text);
}

}  // namespace

AgentCall::AgentCall(PluginCall call, const Caller& caller, std::int64_t started_nanos)
    : call_(std::move(call)),
      caller_(caller),
      started_nanos_(started_nanos),
      last_connect_(Deadline::After(started_nanos, TimeFor(call_))),
      end_(Deadline::After(started_nanos, TimeFor(call_) + kGrace)) {}

int AgentCall::Serve() {
  if (auto netns = CheckNetns(call_.environment); !netns) return Fail(netns.error());
  const auto body = MakeBody();
  if (!body && Is(Verb::kDel)) {
    // The network's name or CNI_ARGS is so long that the container's ADD fails, too. So the container has no address,
    // and its DEL may succeed.
    Complain(kProgram, body.error());
    return EXIT_SUCCESS;
  }
  if (!body) return Fail(body.error());
  if (Is(Verb::kAdd)) take_back_body_ = MakeTakeBackBody();
  call_.tree = nullptr;  // free memory: the tree may be large, and the answer may take minutes
  const auto answer = Ask(*body);
  const Expected<int> status = answer ? Print(*answer) : std::unexpected(answer.error());
  if (status) return *status;
  if (Is(Verb::kAdd) && status.error().code == ErrorCode::kUnknownOutcome) TakeBack();
  return Fail(status.error());
}

Expected<std::string> AgentCall::MakeBody() const {
  const cni::IpamConfig& ipam = call_.config.ipam;
  std::optional<ipam::Dns> dns;
  if (Is(Verb::kAdd) && !ipam.resolv_conf.empty() && !ipam.dns) {
    auto read = ReadResolvConf(ipam.resolv_conf);
    if (!read) return std::unexpected(read.error());
    dns = *std::move(read);
  }
  return cni::MakeForwardedBody(
      {.environment = call_.environment, .config = call_.tree, .started_nanos = started_nanos_}, dns);
}

Expected<AgentAnswer> AgentCall::Ask(const std::string& body) const {
  const std::string request = MakeAgentRequest(body);
  for (bool is_repeated = false;; is_repeated = true) {
    const auto connection = Is(Verb::kStatus)
                                ? Connect(Socket(), last_connect_)
                                : ConnectWhenThere(Socket(), std::min(last_connect_, Deadline::In(kAgentWait)));
    if (!connection && IsAbsence(connection.error())) return WithoutAgent(body, connection.error());
    if (!connection) return NotConnected(connection.error());
    if (Is(Verb::kAdd) && caller_.IsGone()) {
      return berth::Fail(ErrorCode::kTimeout, "the caller has ended, so nobody waits for an address any more");
    }
    auto answer = Exchange(*connection, request, end_);
    if (answer || is_repeated || end_.Passed()) return answer;
    const bool was_sent = answer.error().code == ErrorCode::kUnknownOutcome;
    if (was_sent ? Is(Verb::kAdd) : answer.error().code != ErrorCode::kUnavailable) return answer;
  }
}

Expected<AgentAnswer> AgentCall::WithoutAgent(const std::string& body, int error) const {
  AgentAnswer served{.status = kServed, .is_new = false, .body = {}};
  const std::string& path = call_.config.ipam.state_dir;
  if (auto mode = node::RequireMode(path, node::NodeMode::kAgent); !mode) return std::unexpected(mode.error());
  // STATUS must not fail while an agent restarts: it would make the node NotReady.
  if (Is(Verb::kStatus) && HasLoadedSinceBoot(call_.config.ipam)) return served;
  if (!Is(Verb::kDel)) return NotConnected(error);
  const auto state = node::Folder::Open(path);
  if (!state) return std::unexpected(state.error());
  std::optional<Expected<node::DelQueue>> queue = node::DelQueue::Lock(*state, end_.boot_nanos());
  if (!*queue) return std::unexpected(queue->error());
  // Check the mode again, because somebody may have changed it while this call waited for the lock.
  if (auto mode = node::RequireMode(*state, node::NodeMode::kAgent); !mode) return std::unexpected(mode.error());
  // An agent that listens may have read the queue already, so send the DEL to it.
  const auto connection = Connect(Socket(), end_);
  if (connection) {
    queue.reset();
    return Exchange(*connection, MakeAgentRequest(body), end_);
  }
  if (!IsAbsence(connection.error())) return NotConnected(connection.error());
  if (auto queued = (*queue)->Add(body); !queued) return std::unexpected(queued.error());
  Complain(kProgram,
           {.code = ErrorCode::kUnavailable,
            .message = "no berth-agent answers on " + Socket() + ", so the DEL waits in " + state->path()});
  return served;
}

Expected<AgentAnswer> AgentCall::NotConnected(int error) const {
  if (IsAbsence(error)) {
    return berth::Fail(ErrorCode::kTimeout,
                       "no berth-agent answers on " + Socket() + "; is its pod running on this node?",
                       std::string("connect: ") + std::strerror(error));
  }
  if (error == EAGAIN) {
    return berth::Fail(ErrorCode::kTimeout,
                       "berth-agent on " + Socket() + " accepts no more calls",
                       "the agent is overloaded or stopped: look at the agent's log");
  }
  if (error == ENAMETOOLONG) {
    return berth::Fail(ErrorCode::kInvalid,
                       "ipam.agentSocket is longer than the 107 bytes that a socket's path may have");
  }
  return berth::Fail(ErrorCode::kIo, "connect to berth-agent on " + Socket() + ": " + std::strerror(error));
}

Expected<int> AgentCall::Print(const AgentAnswer& answer) const {
  if (answer.status != kServed) {
    if (!IsCniError(answer.body)) {
      return berth::Fail(
          ErrorCode::kUnknownOutcome,
          "berth-agent answers with status " + std::to_string(answer.status) + " and without a CNI error");
    }
    static_cast<void>(PrintAnswer(answer.body));
    return EXIT_FAILURE;
  }
  if (answer.body.empty() && !Is(Verb::kAdd)) return EXIT_SUCCESS;
  if (!IsObject(answer.body)) {
    return berth::Fail(ErrorCode::kUnknownOutcome, "berth-agent's answer is not a CNI result: " + Quoted(answer.body));
  }
  if (const auto printed = PrintAnswer(answer.body); !printed) {
    Complain(kProgram, printed.error());
    // If the attachment had an address before this ADD (is_new is false), a container may use this address: free none
    // of the attachment's addresses.
    if (answer.is_new) TakeBack();
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

int AgentCall::Fail(Error error) const {
  const bool is_status_of_agent = Is(Verb::kStatus) && CniCode(error.code) == CniCode(ErrorCode::kUnavailable);
  if (is_status_of_agent) error.code = ErrorCode::kNotReady;
  Complain(kProgram, error);
  return PrintError(error, call_.config.version);
}

Expected<std::string> AgentCall::MakeTakeBackBody() const {
  cni::ForwardedCall call{.environment = call_.environment, .config = call_.tree, .started_nanos = started_nanos_};
  call.environment.verb = Verb::kDel;
  // The DEL starts 1 ns after this ADD. If the agent handles this ADD after the DEL, the agent refuses the ADD. The DEL
  // does not free the addresses of an ADD that starts later.
  ++call.started_nanos;
  return cni::MakeForwardedBody(call);
}

void AgentCall::TakeBack() const {
  const auto complain = [&](const Error& error) {
    Complain(kProgram, error.Within("give back the address that this ADD may have got"));
  };
  if (!take_back_body_) return complain(take_back_body_.error());
  const Deadline end = Deadline::In(kTakeBackTime);
  const auto connection = ConnectWhenThere(Socket(), end);
  if (!connection) return complain({.code = ErrorCode::kTimeout, .message = std::strerror(connection.error())});
  const auto answer = Exchange(*connection, MakeAgentRequest(*take_back_body_), end);
  if (!answer) return complain(answer.error());
  if (answer->status != kServed) {
    complain({.code = ErrorCode::kUnavailable, .message = "berth-agent answers " + Quoted(answer->body)});
  }
}

}  // namespace berth::cni_plugin
