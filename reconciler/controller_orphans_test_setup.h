// SPDX-License-Identifier: Apache-2.0
// For tests of a controller that frees orphans: a pod, its entry, and a kubelet that renews its Lease.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "reconciler/controller_test_setup.h"
#include "reconciler/read_holders.h"

namespace berth::reconciler {

// A pod with the address 10.55.0.3 on node n1, whose kubelet renews its Lease.
class ControllerOrphansTest : public ControllerTest {
 protected:
  static constexpr char kPods[] = "/api/v1/namespaces/default/pods";
  static constexpr char kPodUid[] = "11111111-2222-3333-4444-555555555555";
  static constexpr char kOrphan[] =
      "default/web 11111111-2222-3333-4444-555555555555 0123456789ab-0123456789abcdef i=eth0 t=1799999999000";
  static constexpr char kBlock[] = "10.55.0.0-26";

  explicit ControllerOrphansTest(Settings settings = {.reclaim = Reclaim::kOn}) : ControllerTest(std::move(settings)) {
    PutPool("web", {{"subnet", "10.55.0.0/24"}});
    Settle();
    PutBlock("web", "10.55.0.0/26", {{"3", kOrphan}});
    server_->Put(kPods, PodObject(kPodUid));
    mailbox_->Replace(std::map<PodKey, SeenPod>{{"default/web", ReadPod(PodObject(kPodUid)).value()}});
    mailbox_->Replace(std::map<std::string, SeenNode>{{"n1", {.name = "n1", .is_ready = true}}});
    mailbox_->Replace(std::map<std::string, SeenLease>{{"n1", {.node = "n1", .renewed = "0"}}});
    Pass(std::chrono::seconds(3));
  }

  static json PodObject(const std::string& uid, const char* phase = "Running") {
    return {{"metadata", {{"name", "web"}, {"namespace", "default"}, {"uid", uid}, {"resourceVersion", "1"}}},
            {"spec", {{"nodeName", "n1"}}},
            {"status", {{"phase", phase}}}};
  }
  static SeenPod OtherPod() {
    return {.name_space = "default", .name = "other", .uid = "22222222-2222-3333-4444-555555555555", .node = "n1"};
  }
  void Pass(std::chrono::seconds time) {
    for (std::chrono::seconds passed{0}; passed < time; passed += std::chrono::seconds(1)) {
      clock_.Advance(std::chrono::seconds(1));
      if (++ticks_ % 10 == 0) {
        mailbox_->Put("n1",
                      SeenLease{.node = "n1", .renewed = std::to_string(ticks_), .version = kLeasesVersion + ticks_});
      }
      RunPass();
    }
  }
  // The watch shows that the kubelet has ended the pod and that the pod is gone. The API server may still have the pod.
  void SeeItVanish() { mailbox_->ObserveDeletion(ReadPod(PodObject(kPodUid, "Failed")).value()); }
  void SeeOtherVanish() {
    SeenPod other = OtherPod();
    other.is_terminal = true;
    mailbox_->ObserveDeletion(std::move(other));
  }
  void Vanish() {
    Delete(kPods, "web");
    SeeItVanish();
  }
  [[nodiscard]] std::string Entry() const { return EntryAt(kBlock, "3"); }

  // Higher than any version that the API server in memory gives.
  static constexpr std::uint64_t kLeasesVersion = 1'000'000;
  std::uint64_t ticks_ = 0;
};

}  // namespace berth::reconciler
