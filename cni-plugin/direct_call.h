// SPDX-License-Identifier: Apache-2.0
// DirectCall: one CNI call without an agent, from checked input to what is to be printed.
#pragma once

#include <memory>
#include <string>

#include "cni-plugin/process_runtime.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "k8sclient/http_api.h"
#include "node/direct_store.h"
#include "node/ipam_call.h"
#include "node/node_directory.h"

namespace berth::cni_plugin {

class DirectCall {
 public:
  // `started`: when this process began. Reads kubeconfig and opens the node's directory, sends nothing.
  // Errors: kDecode, kIo: the kubeconfig, each with its path; kInvalid: no node name can be told; kUnavailable: this
  // node is its agent's.
  [[nodiscard]] static ipam::Expected<std::unique_ptr<DirectCall>> Make(const cni::Environment& environment,
                                                                        const cni::NetworkConfig& config,
                                                                        node::BootNanos started);

  // What to print. On an error nothing is held that was not before.
  [[nodiscard]] ipam::Expected<std::string> Add();
  // After Add: the answer could not be printed. Gives back what Add took.
  [[nodiscard]] ipam::Expected<void> TakeBackAdd();
  // After Add: the caller has the answer.
  void AnswerDelivered() { node::NodeDirectory::NoteEnd(running_); }

  [[nodiscard]] ipam::Expected<void> Del();
  [[nodiscard]] ipam::Expected<void> Check() { return call_->Check(); }
  [[nodiscard]] ipam::Expected<void> Gc();
  [[nodiscard]] ipam::Expected<void> Status();

  [[nodiscard]] const std::string& node() const { return store_->Node(); }
  [[nodiscard]] const ipam::Attachment& attachment() const { return call_->attachment(); }

 private:
  DirectCall(const cni::Environment& environment, const cni::NetworkConfig& config, node::BootNanos started,
             node::Folder state, node::NodeDirectory directory);
  // With the lock, before anything is looked at that leads to a write.
  [[nodiscard]] ipam::Expected<void> EnterTurn() const;

  const cni::Environment& environment_;
  const cni::NetworkConfig& config_;
  node::BootNanos started_;
  node::Folder state_;
  node::NodeDirectory directory_;
  ProcessRuntime runtime_;
  std::unique_ptr<k8sclient::HttpApi> api_;
  std::unique_ptr<node::DirectStore> store_;
  std::unique_ptr<node::IpamCall> call_;
  node::HeldFile running_;
  bool took_ = false;
};

}  // namespace berth::cni_plugin
