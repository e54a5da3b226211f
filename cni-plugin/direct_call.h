// SPDX-License-Identifier: Apache-2.0
// DirectCall: one CNI call without an agent, from checked input to what is to be printed.
#pragma once

#include <memory>
#include <string>

#include "cni-plugin/process_runtime.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "k8sclient/server_clock.h"
#include "node/direct_store.h"
#include "node/folder.h"
#include "node/ipam_call.h"
#include "node/node_directory.h"

namespace berth::cni_plugin {

// What a call works on.
struct DirectPlace {
  std::string node;
  node::Folder state;
  node::NodeDirectory directory;
  std::shared_ptr<k8sclient::Api> api;
};
// Reads the kubeconfig and opens the node's directory, sends nothing. Errors: kDecode, kIo: the kubeconfig, each with
// its path; kInvalid: no node name can be told; kUnavailable: this node is its agent's.
[[nodiscard]] Expected<DirectPlace> FindDirectPlace(const cni::NetworkConfig& config);

class DirectCall {
 public:
  // `started`: when this process began. environment and config must outlive this.
  DirectCall(const cni::Environment& environment, const cni::NetworkConfig& config, node::BootNanos started,
             DirectPlace place);
  DirectCall(const DirectCall&) = delete;
  DirectCall& operator=(const DirectCall&) = delete;
  ~DirectCall() = default;

  // What to print; empty for verbs that print nothing. On an error nothing is held that was not before.
  [[nodiscard]] Expected<std::string> Serve();
  // After an ADD: the answer could not be printed. Gives back what it took.
  [[nodiscard]] Expected<void> TakeBackAdd();
  // After an ADD: the caller has the answer.
  void AnswerDelivered() { node::NodeDirectory::NoteEnd(running_); }

  [[nodiscard]] const std::string& node() const { return place_.node; }
  [[nodiscard]] const ipam::Attachment& attachment() const { return call_.attachment(); }

 private:
  [[nodiscard]] node::DirectStoreOptions StoreOptions();
  // With the lock, before anything is looked at that leads to a write.
  [[nodiscard]] Expected<void> EnterTurn();
  [[nodiscard]] Expected<std::string> Add();
  [[nodiscard]] Expected<void> Del();
  [[nodiscard]] Expected<void> Gc();
  [[nodiscard]] Expected<void> Status();

  const cni::Environment& environment_;
  const cni::NetworkConfig& config_;
  node::BootNanos started_;
  DirectPlace place_;
  // A call may decide by what an earlier one read, before it has any answer: that one's note tells the time. Who has
  // the lock reads it.
  k8sclient::ServerClock clock_;
  k8sclient::DatedApi api_;
  ProcessRuntime runtime_;
  node::DirectStore store_;
  node::IpamCall call_;
  node::HeldFile running_;
  bool took_ = false;
};

}  // namespace berth::cni_plugin
