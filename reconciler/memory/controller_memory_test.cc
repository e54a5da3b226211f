// SPDX-License-Identifier: Apache-2.0
// How much memory the controller needs in a large cluster: 100,000 pods and 2,000 blocks, with all lists and the first
// decisions. A program of its own, compiled like the released program (k8sclient/memory/list_memory_test.cc says why).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <malloc.h>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "crds/allocation.h"
#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/testing/model_api.h"
#include "reconciler/controller.h"
#include "reconciler/read_holders.h"
#include "reconciler/read_objects.h"
#include "reconciler/watch.h"

namespace berth::reconciler {
namespace {

using k8sclient::Request;
using k8sclient::Response;
using nlohmann::json;

constexpr int kBlocks = 2'000;
constexpr int kPodsPerBlock = 50;
constexpr int kPods = kBlocks * kPodsPerBlock;
constexpr int kNodes = 500;
constexpr int kWatches = 8;
constexpr std::size_t kBytesMax = std::size_t{300} << 20;
constexpr const char* kOldTime = "2027-01-01T00:00:00Z";

std::string NameSpaceOf(int pod) { return fmt::format("team-{}", pod % 100); }
std::string PodName(int pod) { return fmt::format("frontend-7c9d8f6b5-{:05x}", pod); }
std::string UidOf(int pod) { return fmt::format("{:08x}-2222-3333-4444-555555555555", pod); }
std::string NodeOf(int block) { return fmt::format("worker-{}", block % kNodes); }
std::string AttachmentOf(int pod) { return fmt::format("0123456789ab-{:016x}", pod); }
std::string AddressOf(int pod) {
  const int number = (pod / kPodsPerBlock) * 64 + pod % kPodsPerBlock;
  return fmt::format("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
}

json PodObject(int pod) {
  return {{"metadata",
           {{"name", PodName(pod)},
            {"namespace", NameSpaceOf(pod)},
            {"uid", UidOf(pod)},
            {"resourceVersion", "5"},
            // Every pod has such an annotation, and the controller does not read it.
            {"annotations", {{"example.org/configuration", std::string(1500, 'x')}}}}},
          {"spec", {{"nodeName", NodeOf(pod / kPodsPerBlock)}, {"terminationGracePeriodSeconds", 30}}},
          {"status", {{"phase", "Running"}, {"podIPs", {{{"ip", AddressOf(pod)}}}}}}};
}

json AllocationObject(int pod) {
  return {{"metadata",
           {{"name", crds::AllocationName(PodName(pod), AttachmentOf(pod))},
            {"namespace", NameSpaceOf(pod)},
            {"uid", "a" + UidOf(pod)},
            {"resourceVersion", "6"}}}};
}

json NodeObject(int node) {
  return {{"metadata", {{"name", NodeOf(node)}, {"uid", "n" + UidOf(node)}}},
          {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
}

json LeaseObject(int node) {
  return {{"metadata", {{"name", NodeOf(node)}, {"uid", "l" + UidOf(node)}, {"resourceVersion", "4"}}},
          {"spec", {{"renewTime", kOldTime}}}};
}

// The lists of a large cluster, page by page; nothing happens after them. ModelApi does everything else.
class LargeCluster final : public k8sclient::Api {
 public:
  LargeCluster() {
    store_.Put(
        std::string(crds::kPoolsPath),
        {{"metadata", {{"name", "web"}, {"uid", "uid-of-web"}, {"generation", 1}, {"creationTimestamp", kOldTime}}},
         {"spec", {{"subnet", "10.0.0.0/8"}}}});
    const SeenPool pool = ReadPool(store_.Objects(std::string(crds::kPoolsPath)).front()).value();
    kinds_.emplace(kPodsPath, Kind{kPods, PodObject});
    kinds_.emplace(crds::kAllocationsPath, Kind{kPods, AllocationObject});
    kinds_.emplace(kNodesPath, Kind{kNodes, NodeObject});
    kinds_.emplace(kNodeLeasesPath, Kind{kNodes, LeaseObject});
    kinds_.emplace(crds::kBlocksPath, Kind{kBlocks, [pool](int block) { return BlockObject(*pool.pool, block); }});
  }

  Expected<Response> Call(const Request& request, const k8sclient::CallOptions& options) override {
    const auto kind = kinds_.find(request.path);
    if (kind == kinds_.end()) return store_.Call(request, options);
    return Response{.status = 200, .body = Page(kind->second, request)};
  }
  Expected<Response> Watch(const Request& request, const k8sclient::WatchOptions& options,
                           const k8sclient::WatchSink& sink) override {
    ++watches_;
    return store_.Watch(request, options, sink);
  }
  // Every kind is listed, and the pool's status counts each address.
  [[nodiscard]] bool IsSettled() const {
    const json pool = store_.Objects(std::string(crds::kPoolsPath)).front();
    return watches_ >= kWatches &&
           pool.value(json::json_pointer("/status/used"), std::string()) == std::to_string(kPods);
  }

 private:
  struct Kind {
    int count = 0;
    std::function<json(int)> object;
  };

  static json BlockObject(const ipam::Pool& pool, int index) {
    const auto cidr = ipam::Prefix::Parse(AddressOf(index * kPodsPerBlock) + "/26");
    ipam::Block block = ipam::NewBlock(pool, cidr.value(), NodeOf(index));
    for (int i = 0; i < kPodsPerBlock; ++i) {
      const int pod = index * kPodsPerBlock + i;
      block.allocations[static_cast<ipam::BlockOffset>(i)] = fmt::format(
          "{}/{} {} {} i=eth0 t=1799999999000", NameSpaceOf(pod), PodName(pod), UidOf(pod), AttachmentOf(pod));
    }
    json object = crds::BlockToJson(block);
    object["metadata"]["uid"] = "b" + UidOf(index);
    object["metadata"]["resourceVersion"] = "3";
    return object;
  }

  static std::string Page(const Kind& kind, const Request& request) {
    const auto value = [&request](const char* key) {
      const auto found = std::ranges::find(request.query, key, [](const auto& item) { return item.first; });
      return found == request.query.end() ? 0 : std::stoi(found->second);
    };
    const int begin = value("continue");
    const int end = value("limit") == 0 ? kind.count : std::min(kind.count, begin + value("limit"));
    std::string body = R"({"metadata":{"resourceVersion":"1")";
    if (end < kind.count) body += R"(,"continue":")" + std::to_string(end) + '"';
    body += R"(},"items":[)";
    for (int i = begin; i < end; ++i) {
      if (i > begin) body += ',';
      body += kind.object(i).dump();
    }
    return body + "]}";
  }

  k8sclient::testing::ModelApi store_;
  std::map<std::string, Kind, std::less<>> kinds_;
  std::atomic<int> watches_ = 0;
};

// A field of /proc/self/status in bytes.
std::size_t StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kibibytes = 0;
    if (word == field + ":" && status >> kibibytes) return kibibytes << 10;
  }
  ADD_FAILURE() << "no " << field;
  return 0;
}

TEST(ControllerMemory, AHundredThousandPodsAndTwoThousandBlocksFitIntoThreeHundredMebibytes) {
  spdlog::set_level(spdlog::level::off);
  mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): as controller_main.cc, before there are other threads
  LargeCluster cluster;
  Mailbox mailbox;
  Metrics metrics;
  k8sclient::ServerClock clock(k8sclient::RealClock());
  Controller controller(cluster, clock, mailbox, metrics, {.reclaim = Reclaim::kOn, .keeps_allocations = true});
  Watches watches(cluster, k8sclient::RealClock(), mailbox, metrics);
  watches.AddHolders("");
  watches.AddAllocations();
  watches.Start();
  while (!cluster.IsSettled()) {
    mailbox.WaitUntil(std::chrono::steady_clock::now() + std::chrono::milliseconds(100), {});
    static_cast<void>(controller.RunPass({}));
  }
  EXPECT_EQ(metrics.Text().find("berth_controller_orphans_kept{"), std::string::npos) << "all pods live";
  // Of the whole process: the controller, the model of the API server, and the test.
  EXPECT_LT(StatusBytes("VmHWM"), kBytesMax);
  std::printf("highest mark: %zu MiB, at the end %zu MiB\n", StatusBytes("VmHWM") >> 20, StatusBytes("VmRSS") >> 20);
}

}  // namespace
}  // namespace berth::reconciler
