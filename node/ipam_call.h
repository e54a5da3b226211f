// SPDX-License-Identifier: Apache-2.0
// IpamCall: carries out one ADD, CHECK or GC with the engine, from the checked input to the text to print. Direct mode
// and the agent both use it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cni/config.h"
#include "cni/environment.h"
#include "ipam/engine.h"
#include "node/node_directory.h"

namespace berth::node {

struct AddAnswer {
  std::string text;  // the result, in the configuration's cniVersion
  // False: the attachment had an address before this ADD. If the caller cannot deliver the answer, it must free none.
  bool is_new = false;
};

// Returns the start of a process as UNIX time in milliseconds, rounded down like times in entries. `now`: the current
// time; `age`: how long the process has run, in nanoseconds. Read `now` before `age`: then the result may only be too
// early.
[[nodiscard]] std::int64_t StartMillis(std::chrono::system_clock::time_point now, BootNanos age);

class IpamCall {
 public:
  // All references must outlive the call.
  IpamCall(const cni::Environment& environment, const cni::NetworkConfig& config, ipam::BlockStore& store,
           ipam::Runtime& runtime);

  [[nodiscard]] const ipam::Attachment& attachment() const { return attachment_; }
  [[nodiscard]] ipam::Engine& engine() { return engine_; }

  // The request that the engine gets. Errors: those of CNI_ARGS and requested addresses; kInvalid: no pool is named.
  [[nodiscard]] Expected<ipam::AddRequest> MakeAddRequest() const;

  // If Add fails, it frees the addresses that it has newly got. Exception: if only the result cannot be made, Add frees
  // none unless all are new. An address that Add does not free stays until a DEL, or until the pod is gone.
  [[nodiscard]] Expected<AddAnswer> Add(const ipam::AddRequest& request);

  // Errors: kNothingHeld; kInvalid: prevResult lacks an address of the attachment, or has another gateway than the
  // pool.
  [[nodiscard]] Expected<void> Check();
  // The error of a CHECK if the attachment holds no address.
  [[nodiscard]] std::unexpected<Error> HoldsNothing() const;

  // Frees the addresses of this network's attachments that are not in the configuration's list of valid attachments. If
  // the configuration has no list, does nothing. `listed_ms`: returns the start of the GC as UNIX time in milliseconds,
  // or an earlier time. Entries of this time or later stay, because the runtime made its list before the GC started.
  // CollectGarbage calls `listed_ms` only after it has read blocks. `is_running`: true for an attachment with a running
  // ADD, which keeps its addresses. `also`: attachments whose writes a DEL must settle. After an error, continues;
  // returns all errors as one.
  [[nodiscard]] Expected<void> CollectGarbage(const std::function<std::int64_t()>& listed_ms,
                                              const std::function<bool(const ipam::Attachment&)>& is_running,
                                              const std::function<std::vector<ipam::Attachment>()>& also);

 private:
  [[nodiscard]] Expected<std::string> Print(const ipam::AddResult& added, const std::optional<ipam::Dns>& dns) const;

  const cni::Environment& environment_;
  const cni::NetworkConfig& config_;
  ipam::BlockStore& store_;
  ipam::Attachment attachment_;
  ipam::Engine engine_;
};

}  // namespace berth::node
