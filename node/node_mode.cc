// SPDX-License-Identifier: Apache-2.0
// Reads and writes the file `mode`, which contains one word.
#include "node/node_mode.h"

#include <algorithm>
#include <cerrno>

#include "node/del_queue.h"

namespace berth::node {

namespace {

constexpr const char* kModeFile = "mode";
constexpr std::string_view kAgentWord = "agent";
constexpr std::string_view kDirectWord = "direct";

Expected<NodeMode> ReadMode(const Folder& state) {
  auto text = state.Read(kModeFile);
  if (!text && errno == ENOENT) return NodeMode::kAgent;
  if (!text) return FailIo("read", state.PathOf(kModeFile));
  if (text->ends_with('\n')) text->pop_back();  // editors end a file with a newline
  if (*text == kAgentWord) return NodeMode::kAgent;
  if (*text == kDirectWord) return NodeMode::kDirect;
  return Fail(ErrorCode::kInvalid,
              state.PathOf(kModeFile) + " holds " + Quoted(*text) + ", but must hold agent or direct",
              "write agent if the node has the plugin berth, or direct if it has berth-direct");
}

// `state`: path of the folder with the file `mode`.
Expected<void> Compare(const std::string& state, NodeMode mode, NodeMode wanted) {
  if (mode == wanted) return {};
  const std::string file = state + "/" + kModeFile;
  if (wanted == NodeMode::kDirect) {
    return Fail(ErrorCode::kUnavailable,
                file + " does not say direct: only the node's agent may write this node's blocks",
                "install berth in the place of berth-direct, or run berth-agent --retire on this node");
  }
  return Fail(ErrorCode::kUnavailable,
              file + " says direct: only berth-direct may write this node's blocks",
              "install berth-direct in the place of berth; or, if an agent is to serve the node, remove the file");
}

}  // namespace

Expected<void> RequireMode(const Folder& state, NodeMode wanted) {
  const auto mode = ReadMode(state);
  return mode ? Compare(state.path(), *mode, wanted) : std::unexpected(mode.error());
}

Expected<void> RequireMode(const std::string& path, NodeMode wanted) {
  const auto state = Folder::Open(path, IfMissing::kFail);
  if (state) return RequireMode(*state, wanted);
  return errno == ENOENT ? Compare(path, NodeMode::kAgent, wanted) : std::unexpected(state.error());
}

Expected<void> WriteMode(const Folder& state, NodeMode mode) {
  return state.Write(
      kModeFile, std::string(mode == NodeMode::kDirect ? kDirectWord : kAgentWord) + "\n", FileSync::kYes);
}

Expected<bool> BeginAsDirect(const Folder& state) {
  if (RequireMode(state, NodeMode::kDirect)) return false;
  // Do not wait for the queue's lock: its holder may be an agent that takes the node, or `berth`, which queues a DEL
  // for an agent. In both cases the node belongs to an agent. For any other holder, the caller tries again.
  const auto queue = DelQueue::Lock(state, /*deadline=*/0);
  if (!queue) return std::unexpected(queue.error());
  if (auto mode = RequireMode(state, NodeMode::kAgent); !mode) return std::unexpected(mode.error());
  const auto names = state.Names();
  if (!names) return std::unexpected(names.error());
  // Each of these shows that the node belongs to an agent: an agent creates `nodes` before it serves, `berth` leaves
  // DELs in `queue` if no agent listens, and a person has written `agent` to `mode`.
  for (const char* left : {"nodes", "queue", kModeFile}) {
    if (std::ranges::find(*names, left) == names->end()) continue;
    return Fail(ErrorCode::kUnavailable,
                state.PathOf(left) +
                    " exists: this node belongs to an agent, which may still have to record addresses of its pods",
                "run berth-agent --retire on this node; or, if no pod on this node has an address from berth, remove "
                "what the message names");
  }
  if (auto written = WriteMode(state, NodeMode::kDirect); !written) return std::unexpected(written.error());
  return true;
}

}  // namespace berth::node
