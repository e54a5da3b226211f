// SPDX-License-Identifier: Apache-2.0
// DirectCall: carries out one CNI call without an agent, from the checked input to the text to print.
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

// The node, its files and its API server.
struct DirectPlace {
  std::string node;
  node::Folder state;
  node::NodeDirectory directory;
  std::shared_ptr<k8sclient::Api> api;
};
// Reads the kubeconfig and opens the node's directory; sends no request. Errors: kDecode, kIo: the kubeconfig, with its
// path; kInvalid: the node's name is unknown or not allowed; kUnavailable: the node is in agent mode.
[[nodiscard]] Expected<DirectPlace> FindDirectPlace(const cni::NetworkConfig& config);

class DirectCall {
 public:
  // `started`: start of this process. `environment` and `config` must outlive this object.
  DirectCall(const cni::Environment& environment, const cni::NetworkConfig& config, node::BootNanos started,
             DirectPlace place);
  DirectCall(const DirectCall&) = delete;
  DirectCall& operator=(const DirectCall&) = delete;
  ~DirectCall() = default;

  // Returns the text to print; empty for verbs that print nothing. If an ADD fails, Serve frees the addresses that the
  // ADD has newly got (node::IpamCall::Add). An address that Serve does not free stays until a DEL frees it, or until
  // the pod is gone.
  [[nodiscard]] Expected<std::string> Serve();
  // Call if the answer of an ADD could not be printed. Frees the attachment's addresses if this ADD gave all of them.
  [[nodiscard]] Expected<void> TakeBackAdd();
  // Records that this ADD ends now. Call after the answer of an ADD was printed, as the last thing before the process
  // ends.
  void AnswerDelivered() { node::NodeDirectory::NoteEnd(running_); }

  [[nodiscard]] const std::string& node() const { return place_.node; }
  [[nodiscard]] const ipam::Attachment& attachment() const { return call_.attachment(); }

 private:
  [[nodiscard]] node::DirectStoreOptions StoreOptions();
  // Takes the node's lock, and then checks whether DirectCall may still serve this call. Call EnterTurn before the
  // store reads anything: a call may wait for the lock for long, and objects that it had read before would then be
  // outdated. Errors: those of NodeDirectory::Lock; the node is in agent mode; a DEL came after this ADD started.
  [[nodiscard]] Expected<void> EnterTurn();
  [[nodiscard]] Expected<std::string> Add();
  // Records that this ADD no longer runs.
  void EndRunning();
  [[nodiscard]] Expected<void> Check();
  [[nodiscard]] Expected<void> Del();
  [[nodiscard]] Expected<void> Gc();
  [[nodiscard]] Expected<void> Status();

  const cni::Environment& environment_;
  const cni::NetworkConfig& config_;
  node::BootNanos started_;
  node::BootNanos lock_deadline_;  // after four fifths of the call's time limit
  DirectPlace place_;
  // A call may use blocks that an earlier call has saved, before it has any answer from the API server. Therefore the
  // call takes the lock and then reads the API server's time from the earlier call's note.
  k8sclient::ServerClock clock_;
  k8sclient::DatedApi api_;
  ProcessRuntime runtime_;
  node::DirectStore store_;
  node::IpamCall call_;
  node::HeldFile lock_;
  node::HeldFile running_;
  bool is_new_ = false;
};

}  // namespace berth::cni_plugin
