// SPDX-License-Identifier: Apache-2.0
// How much memory a list needs. This test is a program of its own, compiled like the shipped programs: it then reads
// 84 MB of JSON in 1 s, and in 30 s if it is compiled like the other tests.
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/http_api.h"
#include "k8sclient/testing/scripted_server.h"
#include "k8sclient/testing/test_api.h"
#include "k8sclient/verbs.h"

namespace berth::k8sclient {
namespace {

using testing::MakeApi;
using testing::Peer;
using testing::ScriptedServer;

constexpr int kBlocks = 400;

// A block of the largest size that the schema allows: 256 entries of 800 characters.
std::string LargeBlock() {
  nlohmann::json block = {{"metadata", {{"name", "10.55.0.0-24"}}}, {"allocations", nlohmann::json::object()}};
  for (int i = 0; i < 256; ++i) block["allocations"][std::to_string(i)] = std::string(800, 'x');
  return block.dump();
}

std::string Chunk(std::string_view text) {
  std::array<char, 32> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
  return size.data() + std::string(text) + "\r\n";
}

void SendLargeList(Peer& peer) {
  const std::string block = LargeBlock();
  peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  peer.Send(Chunk(R"({"metadata":{"resourceVersion":"7"},"items":[)"));
  for (int i = 0; i < kBlocks; ++i) peer.Send(Chunk(i == 0 ? block : "," + block));
  peer.Send(Chunk("]}") + "0\r\n\r\n");
}

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

// Resets VmHWM, so that it measures only the code that follows.
void ResetHighestMark() {
  std::ofstream reset("/proc/self/clear_refs");
  reset << '5';
  reset.flush();
  ASSERT_TRUE(reset.good());
}

TEST(ListMemory, FourHundredLargeBlocksAtOnceFitIntoSixtyFourMebibytes) {
  const ScriptedServer server([](Peer& peer) {
    if (peer.ReadRequest()) SendLargeList(peer);
  });
  const auto api = MakeApi({.server = server.url()});
  int count = 0;
  std::size_t bytes = 0;
  const auto take = [&](const nlohmann::json& block) {
    ++count;
    for (const auto& entry : block["allocations"]) bytes += entry.get_ref<const std::string&>().size();
  };
  ResetHighestMark();
  const auto version =
      ListEach(*api, "/ipblocks", {.page_size = 0}, CallOptions::Within(std::chrono::minutes(4)), {.item = take});
  ASSERT_TRUE(version.has_value()) << version.error().message;
  EXPECT_EQ(*version, "7");
  EXPECT_EQ(count, kBlocks);
  EXPECT_EQ(bytes, std::size_t{kBlocks} * 256 * 800);
  // VmHWM counts the whole process: client, server and test.
  EXPECT_LT(StatusBytes("VmHWM"), std::size_t{64} << 20);
  std::printf("highest mark: %zu MiB\n", StatusBytes("VmHWM") >> 20);
}

}  // namespace
}  // namespace berth::k8sclient
