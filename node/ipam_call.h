// SPDX-License-Identifier: Apache-2.0
// IpamCall: one ADD, CHECK or GC over the engine, from checked input to what is to be printed. The same for direct mode
// and the agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cni/config.h"
#include "cni/environment.h"
#include "ipam/engine.h"
#include "node/node_directory.h"

namespace berth::node {

struct AddAnswer {
  std::string text;   // the result, in the configuration's version
  bool took = false;  // false: the attachment had all of it before, so nothing is to be taken back
};

// The millisecond of UNIX time, rounded down as in entries, in which began what is that old. A moment too early at
// most, if `now` is read before the age: what lies in between makes it older.
[[nodiscard]] std::int64_t StartMillis(std::chrono::system_clock::time_point now, BootNanos age);

class IpamCall {
 public:
  // All must outlive the call.
  IpamCall(const cni::Environment& environment, const cni::NetworkConfig& config, ipam::BlockStore& store,
           ipam::Runtime& runtime);

  [[nodiscard]] const ipam::Attachment& attachment() const { return attachment_; }
  [[nodiscard]] ipam::Engine& engine() { return engine_; }

  // What the ADD asks for. Errors: those of CNI_ARGS and requested addresses; kInvalid: no pool is named.
  [[nodiscard]] Expected<ipam::AddRequest> MakeAddRequest() const;

  // On an error nothing is held that was not before.
  [[nodiscard]] Expected<AddAnswer> Add(const ipam::AddRequest& request);

  // Errors: kNothingHeld; kInvalid: one is not in prevResult, or its gateway there is not the pool's.
  [[nodiscard]] Expected<void> Check();
  // What a CHECK is told of an attachment that holds no address.
  [[nodiscard]] std::unexpected<Error> HoldsNothing() const;

  // Does nothing if the configuration has no list: nobody said what is valid. What was taken from `listed_ms` on (UNIX
  // time in milliseconds; asked for once blocks were read) stays: the list was made before and cannot know of it.
  // `is_running` keeps attachments whose ADD is under way; `also` names attachments with unsettled writes. Goes on
  // after errors and returns them as one.
  [[nodiscard]] Expected<void> CollectGarbage(const std::function<std::int64_t()>& listed_ms,
                                              const std::function<bool(const ipam::Attachment&)>& is_running,
                                              const std::function<std::vector<ipam::Attachment>()>& also);

 private:
  [[nodiscard]] Expected<std::string> Print(const ipam::AddResult& added) const;

  const cni::Environment& environment_;
  const cni::NetworkConfig& config_;
  ipam::BlockStore& store_;
  ipam::Attachment attachment_;
  ipam::Engine engine_;
};

}  // namespace berth::node
