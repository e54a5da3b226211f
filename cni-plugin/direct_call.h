// SPDX-License-Identifier: Apache-2.0
// DirectCall: one CNI call without an agent, from checked input to what is to be printed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cni-plugin/direct_store.h"
#include "cni-plugin/node_directory.h"
#include "cni-plugin/process_runtime.h"
#include "cni/args.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "cni/result.h"
#include "ipam/engine.h"
#include "k8sclient/http_api.h"

namespace berth::cni_plugin {

class DirectCall {
 public:
  // `started`: when this process began. Reads kubeconfig and opens the node's directory, sends nothing.
  // Errors: kDecode, kIo: the kubeconfig, each with its path; kInvalid: no node name can be told.
  [[nodiscard]] static ipam::Expected<std::unique_ptr<DirectCall>> Make(const cni::Environment& environment,
                                                                        const cni::NetworkConfig& config,
                                                                        BootNanos started);

  // What to print. On an error nothing is held that was not before.
  [[nodiscard]] ipam::Expected<std::string> Add();
  // After Add: the answer could not be printed. Gives back what Add took.
  [[nodiscard]] ipam::Expected<void> TakeBackAdd();
  // After Add: the caller has the answer.
  void AnswerDelivered() { directory_.ForgetRunning(attachment_); }

  [[nodiscard]] ipam::Expected<void> Del();
  [[nodiscard]] ipam::Expected<void> Check();
  [[nodiscard]] ipam::Expected<void> Gc();
  [[nodiscard]] ipam::Expected<void> Status();

  [[nodiscard]] const std::string& node() const { return store_->Node(); }
  [[nodiscard]] const ipam::Attachment& attachment() const { return attachment_; }

 private:
  DirectCall(const cni::Environment& environment, const cni::NetworkConfig& config, BootNanos started,
             NodeDirectory directory);

  [[nodiscard]] ipam::Expected<ipam::AddRequest> MakeAddRequest() const;
  [[nodiscard]] ipam::Expected<std::string> PrintResult(const ipam::AddResult& added) const;

  const cni::Environment& environment_;
  const cni::NetworkConfig& config_;
  BootNanos started_;
  ipam::Attachment attachment_;
  NodeDirectory directory_;
  ProcessRuntime runtime_;
  std::unique_ptr<k8sclient::HttpApi> api_;
  std::unique_ptr<DirectStore> store_;
  std::unique_ptr<ipam::Engine> engine_;
  HeldFile running_;
  bool took_ = false;
};

}  // namespace berth::cni_plugin
