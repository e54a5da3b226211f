// SPDX-License-Identifier: Apache-2.0
// The thief's writes.
#include "sim/thief.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <thread>
#include <variant>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/block.h"
#include "crds/names.h"
#include "crds/pool.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "ipam/prefix.h"

namespace berth::sim {

using namespace std::chrono_literals;
using k8sclient::Method;
using nlohmann::json;

namespace {

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): without memory there is no simulation
const std::string kStolenFrom(crds::kBlocksPath);
constexpr const char* kMark = " n=stolen ";
// With more held entries, the controllers would free no address of any pod (docs/hardening.md).
constexpr std::size_t kHeldMax = 30;
constexpr std::size_t kBlocksMax = 6;
constexpr std::uint64_t kPauseMs = 3'000;

std::string Hex(std::size_t digits) {
  std::string text;
  while (text.size() < digits) text += fmt::format("{:x}", Below(16));
  return text;
}

// A cooling entry whose time is over. The thief overwrites no other cooling entry in a Shared block: that would end the
// cooling too early, which is a known limit.
bool IsOver(const std::string& text) {
  const auto entry = ipam::ParseEntry(text);
  const auto* cooling = std::get_if<ipam::CoolingEntry>(&entry);
  return cooling != nullptr && std::chrono::milliseconds(cooling->until_ms) <= Calendar();
}
bool IsShared(const json& block) { return block["spec"].value("node", "").empty(); }
bool IsOwn(const json& block) { return block["spec"].value("node", "") == Thief::kNode; }

template <std::size_t kSize>
std::string OneOf(const std::array<const char*, kSize>& texts) {
  return texts.at(Below(kSize));
}

// A random offset of the block's CIDR.
std::string AnyOffset(const json& block) {
  const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
  return std::to_string(Below(std::uint64_t{1} << (32 - cidr->length())));
}

}  // namespace

Thief::Thief(k8sclient::testing::ModelApi& store, Network& network, Story& story)
    : store_(store), story_(story), link_(network, std::string("node ") + kNode) {}

bool Thief::IsIts(const json& block, const std::string& entry) {
  return IsOwn(block) || (IsShared(block) && (entry + " ").contains(kMark));
}

json Thief::WithoutIts(const json& block) {
  if (block.is_null() || IsOwn(block)) return nullptr;
  json others = block;
  json& entries = others["allocations"];
  for (auto one = entries.begin(); one != entries.end();) {
    one = IsIts(block, one->get_ref<const std::string&>()) ? entries.erase(one) : std::next(one);
  }
  return others;
}

void Thief::Start() {
  Spawn(process_, [this] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(Below(kPauseMs)));
      WriteOne();
    }
  });
}

void Thief::End() { Kill(*process_); }

int Thief::Send(Method method, const std::string& path, const json& body) {
  const auto answer =
      link_.Call({.method = method, .path = path, .body = body.dump()}, k8sclient::CallOptions::Within(10s));
  return answer ? answer->status : 0;
}

std::size_t Thief::CountHeld() const {
  std::size_t count = 0;
  for (const json& block : store_.Objects(kStolenFrom)) {
    for (const json& text : block["allocations"]) {
      const auto& entry = text.get_ref<const std::string&>();
      if (IsIts(block, entry) && !ipam::AttachmentOf(entry).empty()) ++count;
    }
  }
  return count;
}

void Thief::WriteOne() {
  const auto blocks = store_.Objects(kStolenFrom);
  if (blocks.empty() || Below(6) == 0) return Claim();
  const json& block = blocks[Below(blocks.size())];
  if (IsShared(block) || IsOwn(block)) return Below(8) == 0 ? Trespass(block) : Patch(block);
  if (Below(4) == 0) Trespass(block);
}

void Thief::Claim() {
  const auto blocks = store_.Objects(kStolenFrom);
  if (static_cast<std::size_t>(std::ranges::count_if(blocks, IsOwn)) >= kBlocksMax) return;
  const auto pools = store_.Objects(std::string(crds::kPoolsPath));
  if (pools.empty()) return;
  const auto pool = crds::ParsePool(pools[Below(pools.size())]);
  if (!pool || pool->family() != ipam::Family::kIPv4) return;
  // An odd block has another size than the pool's blocks, is outside of the pool's subnet, or has another affinity.
  const bool is_odd = Below(3) == 0;
  const bool is_shared = (pool->affinity == ipam::Affinity::kShared) != (is_odd && Below(3) == 0);
  const int length = pool->BlockLength() + (is_odd ? static_cast<int>(Below(4)) : 0);
  const ipam::Prefix subnet = is_odd && Below(3) == 0 ? ipam::Prefix::Parse("10.99.0.0/24").value() : pool->subnet;
  const auto address = subnet.At(Below(std::uint64_t{1} << static_cast<unsigned>(32 - subnet.length())));
  json block = crds::BlockToJson(ipam::NewBlock(*pool, ipam::Prefix::Around(address, length), is_shared ? "" : kNode));
  if (Below(4) == 0) block["spec"]["poolUID"] = "nobody";
  if (Below(2) == 0 && CountHeld() < kHeldMax) {
    block["allocations"] = {{AnyOffset(block), OddEntry(is_shared)}};
    block["used"] = 1;
  }
  block["free"] = Below(257);
  if (!is_shared && Below(2) == 0)
    block["agent"] = OneOf(std::array{"x.0", "0-0.18446744073709551615", "_-_.99999999999999999999999"});
  Send(Method::kPost, kStolenFrom, block);
}

std::string Thief::AnyHolder() const {
  std::vector<std::string> holders;
  for (const json& block : store_.Objects(kStolenFrom)) {
    for (const json& text : block["allocations"]) {
      const auto parsed = ipam::ParseEntry(text.get_ref<const std::string&>());
      const auto* held = std::get_if<ipam::HeldEntry>(&parsed);
      if (held == nullptr || held->pod.empty()) continue;
      holders.push_back(fmt::format("{}/{} {} {}", held->pod_namespace, held->pod, held->uid, held->attachment));
    }
  }
  const std::string uid = Hex(8) + "-" + Hex(4) + "-4000-8000-" + Hex(12);
  if (holders.empty() || Below(3) == 0) return fmt::format("ns/{} {} {}-{}", Hex(6), uid, Hex(12), Hex(16));
  std::string holder = holders[Below(holders.size())];
  // The controller writes entries in this form when it puts them back.
  if (Below(4) == 0) {
    const auto words = ipam::ParseEntry(holder + " i=eth0 t=1");
    if (const auto* held = std::get_if<ipam::HeldEntry>(&words); held != nullptr && held->uid.size() >= 18) {
      std::string digits = held->uid;
      std::erase(digits, '-');
      holder = holder.substr(0, holder.rfind(' ')) + " 000000000000-" + digits.substr(0, 16);
    }
  }
  return holder;
}

std::string Thief::OwnEntry() const {
  const std::string time = OneOf(std::array{"0", "1767225600000", "9223372036854775807", "99999999999999999999999"});
  std::string entry = fmt::format("{} i={} t={} n={}", AnyHolder(), Below(4) == 0 ? "net1" : "eth0", time, kNode);
  if (Below(3) == 0) {
    entry += OneOf(std::array{
        " c=86400", " c=9223372036854775807", " c=-1", " s=1", " ns=..%2F..%2Fx", " z=nobody", " k=v k=v", " t=1 i=x"});
  }
  if (Below(8) == 0) entry += " x=" + std::string(ipam::kEntryLengthMax - entry.size() - 3, 'x');
  return entry;
}

std::string Thief::OddEntry(bool is_shared) const {
  if (is_shared || Below(3) == 0) return OwnEntry();
  if (Below(4) == 0) return fmt::format("{} i=eth0 t=1767225600000 ns=x", AnyHolder());
  if (Below(4) == 0) {
    const std::string holder = AnyHolder();
    return "~ t=1767225600000 f=" + holder.substr(holder.rfind(' ') + 1);
  }
  if (Below(4) == 0) {
    const std::string holder = AnyHolder();
    return fmt::format("~ t=1767225600000 f={} {} i=eth0 t=1", holder.substr(holder.rfind(' ') + 1), holder);
  }
  return OneOf(std::array{"x",
                          "~",
                          "~ ",
                          "!",
                          "! r",
                          "~ t=999999999999999999",
                          "~ t=-9223372036854775808",
                          "~ t=9223372036854775807 f=x",
                          "a/b c d",
                          "/ / /",
                          "-/- - 0123456789ab-0123456789abcdef",
                          "% %% %%%"});
}

void Thief::Patch(const json& block) {
  const bool is_shared = IsShared(block);
  json patch = {{"metadata", {{"resourceVersion", block["metadata"]["resourceVersion"]}}}};
  json changed = block["allocations"];
  const auto changes = 1 + Below(3);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::string offset = AnyOffset(block);
    const bool is_there = changed.contains(offset);
    const bool is_its = is_there && IsIts(block, changed[offset].get<std::string>());
    const bool is_free = !is_there || IsOver(changed[offset].get_ref<const std::string&>());
    if (is_shared && !is_its && !is_free) continue;
    if (is_its && Below(3) == 0) {
      changed.erase(offset);
      patch["allocations"][offset] = nullptr;
    } else if (is_its && Below(3) == 0) {
      patch["allocations"][offset] = changed[offset] = "~ t=" + std::string(1 + Below(18), '9');
    } else if (CountHeld() + changes < kHeldMax) {
      patch["allocations"][offset] = changed[offset] = OddEntry(is_shared);
    }
  }
  patch["used"] = changed.size();
  patch["next"] = Below(256);
  patch["free"] = Below(257);
  if (!is_shared && Below(2) == 0) {
    patch["standby"] = json::array();
    const auto offsets = Below(65);
    for (std::uint64_t i = 0; i < offsets; ++i) patch["standby"].push_back(i);
  }
  if (!is_shared && Below(2) == 0) patch["agent"] = fmt::format("{}-{}.{}", Hex(8), Hex(12), Random());
  Send(Method::kPatch, kStolenFrom + "/" + block["metadata"]["name"].get<std::string>(), patch);
}

void Thief::Trespass(const json& block) {
  const std::string path = kStolenFrom + "/" + block["metadata"]["name"].get<std::string>();
  constexpr int kOk = 200;
  int status = 0;
  const auto kind = Below(4);
  if (kind == 0) status = Send(Method::kDelete, path, json::object());
  if (kind == 1) status = Send(Method::kPatch, path, {{"metadata", {{"finalizers", nullptr}}}});
  if (kind == 2) status = Send(Method::kPatch, path, {{"metadata", {{"labels", {{"stolen", Hex(2)}}}}}});
  if (kind == 3 && !IsOwn(block)) status = Send(Method::kPatch, path, {{"agent", Hex(8) + "-" + Hex(12) + ".1"}});
  if (status == kOk) story_.Break("stolen", "the policy let the thief write what is not the thief's: " + path);
}

}  // namespace berth::sim
