// SPDX-License-Identifier: Apache-2.0
// The commands of scripts.
#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <memory>
#include <regex>
#include <thread>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/block.h"
#include "crds/names.h"
#include "crds/pool.h"
#include "ipam/entry.h"
#include "ipam/prefix.h"
#include "reconciler/read_holders.h"
#include "sim/checkers.h"
#include "sim/scheduler.h"
#include "sim/script_world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

using Done = Expected<void>;

// Longest time of `wait until`.
constexpr Nanos kEventMax = std::chrono::minutes(5);
// The limit of the rule `quiet` (bounds.h).
constexpr std::uint64_t kQuietMax = 30;

std::string PathOf(std::string_view collection) { return std::string(collection); }

std::unexpected<Error> NotSo(const std::string& why) { return Fail(ErrorCode::kInvalid, why); }

Expected<std::uint32_t> ToCount(const std::string& word) {
  std::uint32_t count = 0;
  const char* const end = word.data() + word.size();
  if (std::from_chars(word.data(), end, count) != std::from_chars_result{end, std::errc()})
    return NotSo(word + " is not a number");
  return count;
}

// The answer to a call, as text that follows the pod's name.
std::string AnswerOf(const Heard& heard) {
  if (!heard.is_answered) return " gets no answer";
  if (heard.error.empty()) return heard.verb == "ADD" ? " gets " + ToText(heard.addresses) : " is deleted";
  // Names of agents are random.
  static const std::regex kAgent("[0-9a-f]{8}-[0-9a-f]{12}");
  const json error = json::parse(heard.error);
  const std::string message = std::regex_replace(error["msg"].get<std::string>(), kAgent, "NAME");
  return fmt::format(" gets error {}: {}", error["code"].get<int>(), message);
}

}  // namespace

Expected<Machine*> ScriptWorld::FindMachine(const std::string& name) const {
  const auto found = std::ranges::find_if(machines_, [&](const auto& one) { return one->node.called() == name; });
  if (found == machines_.end()) return NotSo("there is no machine " + name);
  return found->get();
}

// --- Programs and objects -------------------------------------------------------------------------------------------

Done ScriptWorld::Pool(const Words& words) {
  const auto addresses = ToCount(words.at("COUNT"));
  if (!addresses) return std::unexpected(addresses.error());
  if (!std::has_single_bit(*addresses)) return NotSo("a block has 2, 4, 8, ... addresses");
  const std::string& name = words.at("POOL");
  json pool = {{"metadata", {{"name", name}, {"uid", "uid-of-" + name}, {"generation", 1}}},
               {"spec",
                {{"subnet", words.at("SUBNET")},
                 {"affinity", "Node"},
                 {"warmAddresses", 0},
                 {"cooldownSeconds", 0},
                 {"blockSize", (IsIpv6(words.at("SUBNET")) ? 128 : 32) - std::countr_zero(*addresses)}}}};
  if (controllers_.count() == 0) {
    pool["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}};
  }
  if (auto read = crds::ParsePool(pool); !read) return NotSo(read.error().message);
  store_.Put(PathOf(crds::kPoolsPath), pool);
  pools_.push_back(name);
  return {};
}

Done ScriptWorld::AddMachine(const std::string& called, const std::string& node, bool is_direct) {
  if (FindMachine(called)) return NotSo("there is a machine " + called + " already");
  if (pools_.empty()) return NotSo("the pools come before the nodes: nodes give addresses of all of them");
  const bool is_first = std::ranges::none_of(machines_, [&](const auto& one) { return one->node.name() == node; });
  if (is_first) cluster_.AddNode(node);
  machines_.push_back(std::make_unique<Machine>(
      Node::Options{.name = node, .called = called, .folder = "/sim/" + called, .is_direct = is_direct},
      network_,
      story_,
      checkers_,
      Kubelet::Options{.networks = {{.name = kFirstNetwork, .interface = kFirstInterface, .pools = pools_}},
                       .cluster = &cluster_,
                       .has_static_pods = false}));
  Node& machine = machines_.back()->node;
  machine.StartAgent();
  while (!machine.IsServing()) std::this_thread::sleep_for(10ms);
  return {};
}

Done ScriptWorld::Controller(const Words& /*words*/) {
  controllers_.Start(/*clock_error=*/0s);
  return {};
}

Done ScriptWorld::Elections(const Words& /*words*/) {
  if (controllers_.starts() > 0) return NotSo("a controller runs already");
  controllers_.BeginElections();
  return {};
}

Done ScriptWorld::ReplaceController(const Words& /*words*/) {
  if (controllers_.count() != 1) return NotSo("this needs exactly one controller");
  controllers_.ReplaceOne(/*clock_error=*/0s);
  return {};
}

Done ScriptWorld::StartScheduler(const Words& /*words*/) {
  scheduler_.Start();
  return {};
}

Done ScriptWorld::MakeBlock(const Words& words) {
  const auto cidr = ipam::Prefix::Parse(words.at("CIDR"));
  if (!cidr) return NotSo(cidr.error().message);
  for (const json& object : store_.Objects(PathOf(crds::kPoolsPath))) {
    const auto pool = crds::ParsePool(object);
    if (!pool || pool->name != words.at("POOL")) continue;
    const json block = crds::BlockToJson(ipam::NewBlock(*pool, *cidr, words.at("NODE")));
    const auto made =
        store_.Call({.method = k8sclient::Method::kPost, .path = PathOf(crds::kBlocksPath), .body = block.dump()}, {});
    return made && made->ok() ? Done() : NotSo(made ? made->body : made.error().message);
  }
  return NotSo("there is no pool " + words.at("POOL"));
}

Done ScriptWorld::DeleteBlock(const Words& words) {
  store_.Remove(PathOf(crds::kBlocksPath), words.at("BLOCK"));
  return {};
}

// --- Pods -----------------------------------------------------------------------------------------------------------

void ScriptWorld::Call(const std::string& verb, const std::string& pod, Machine& machine) {
  const auto is_answered = std::make_shared<bool>(false);
  const int held = answers_.held();
  ++calls_;
  Spawn(machine.kubelet.process(), [this, verb, pod, &machine, is_answered] {
    const Heard heard = machine.kubelet.CallOnce(verb, pod, pods_.at(pod));
    const bool is_done = heard.is_answered && heard.error.empty();
    if (is_done && verb == "ADD") cluster_.TellAddresses(pods_.at(pod), machine.node.name(), heard.addresses);
    if (is_done && verb == "DEL") cluster_.EndPod(pods_.at(pod));
    --calls_;
    *is_answered = true;
    Tell(pod + AnswerOf(heard));
  });
  while (!*is_answered && answers_.held() <= held) static_cast<void>(AwaitAt(&seen_));
}

Done ScriptWorld::Add(const Words& words) {
  const auto machine = FindMachine(words.at("MACHINE"));
  if (!machine) return std::unexpected(machine.error());
  const std::string& pod = words.at("POD");
  if (!pods_.contains(pod)) pods_[pod] = cluster_.StartPod((*machine)->node.name(), pod);
  runs_on_[pod] = *machine;
  Call("ADD", pod, **machine);
  return {};
}

Done ScriptWorld::Delete(const Words& words) {
  const auto machine = runs_on_.find(words.at("POD"));
  if (machine == runs_on_.end()) return NotSo("no machine runs " + words.at("POD"));
  Call("DEL", machine->first, *machine->second);
  return {};
}

Done ScriptWorld::EndWithoutDel(const Words& words) {
  const auto machine = runs_on_.find(words.at("POD"));
  if (machine == runs_on_.end()) return NotSo("no machine runs " + words.at("POD"));
  machine->second->kubelet.Lose(machine->first);
  cluster_.EndPod(pods_.at(machine->first));
  return {};
}

Done ScriptWorld::Requests(const Words& words) {
  const auto units = ToCount(words.at("COUNT"));
  if (!units) return std::unexpected(units.error());
  pods_[words.at("POD")] = cluster_.CreatePod(words.at("POD"), *units, words.at("NODE"));
  return {};
}

Done ScriptWorld::Bind(const Words& words) {
  const std::string& pod = words.at("POD");
  if (!pods_.contains(pod)) return NotSo("there is no pod " + pod);
  const json binding = {{"metadata", {{"name", pod}, {"uid", pods_.at(pod).uid}}},
                        {"target", {{"kind", "Node"}, {"name", words.at("NODE")}}}};
  const auto answer = store_.Call({.method = k8sclient::Method::kPost,
                                   .path = fmt::format("/api/v1/namespaces/{}/pods/{}/binding", kNamespace, pod),
                                   .body = binding.dump()},
                                  {});
  return answer && answer->ok() ? Done() : NotSo(answer ? answer->body : answer.error().message);
}

// --- What the world answers, and time -------------------------------------------------------------------------------

Done ScriptWorld::Hold(const Words& words) {
  answers_.HoldNext({.verb = words.at("VERB"), .resource = words.at("RESOURCE"), .who = words.at("WHO")});
  return {};
}

Done ScriptWorld::LetGo(const Words& /*words*/) {
  if (answers_.held() == 0) return NotSo("no request is held");
  answers_.LetGo();
  while (calls_ > 0) static_cast<void>(AwaitAt(&seen_));
  return {};
}

Done ScriptWorld::HoldWatch(const Words& words) {
  answers_.HoldWatch({.resource = words.at("RESOURCE"), .who = words.at("WHO")});
  return {};
}

Done ScriptWorld::LetWatchGo(const Words& words) {
  const bool was_held = answers_.LetWatchGo({.resource = words.at("RESOURCE"), .who = words.at("WHO")});
  return was_held ? Done() : NotSo("that watch is not held");
}

Done ScriptWorld::Wait(const Words& words) {
  const auto seconds = ToCount(words.at("COUNT"));
  if (!seconds) return std::unexpected(seconds.error());
  std::this_thread::sleep_for(std::chrono::seconds(*seconds));
  return {};
}

Done ScriptWorld::WaitUntil(const Words& words) {
  const Nanos end = Now() + kEventMax;
  while (std::ranges::find(seen_, words.at("EVENT")) == seen_.end()) {
    if (AwaitAt(&seen_, end)) continue;
    Tell("this does not happen within five minutes");
    break;
  }
  return {};
}

// --- What is looked at ----------------------------------------------------------------------------------------------

Done ScriptWorld::ShowNumbers(const Words& /*words*/) {
  for (const json& node : store_.Objects(PathOf(reconciler::kNodesPath))) {
    const auto number = NumberOf(node);
    Tell(fmt::format(
        "{} shows {}", node["metadata"]["name"].get<std::string>(), number ? std::to_string(*number) : "no number"));
  }
  if (const std::string wrong = counted_.Deviation(); !wrong.empty()) Tell("WRONG: " + wrong);
  return {};
}

Done ScriptWorld::ShowBlocks(const Words& /*words*/) {
  for (const json& object : store_.Objects(PathOf(crds::kBlocksPath))) {
    const auto block = crds::ParseBlock(object);
    if (!block) return NotSo(block.error().message);
    std::string line = fmt::format("{} of {}:", block->name, block->node);
    for (const auto& [offset, text] : block->allocations) {
      const ipam::Entry entry = ipam::ParseEntry(text);
      const auto* const held = std::get_if<ipam::HeldEntry>(&entry);
      line += fmt::format(" {}={}", block->cidr.At(offset).ToString(), held == nullptr ? text : held->pod);
    }
    Tell(line);
  }
  return {};
}

Done ScriptWorld::CountRequests(const Words& words) {
  const auto machine = FindMachine(words.at("MACHINE"));
  if (!machine) return std::unexpected(machine.error());
  const std::uint64_t before = (*machine)->link.requests();
  std::this_thread::sleep_for(1min);
  const std::uint64_t count = (*machine)->link.requests() - before;
  const std::string shown = count <= kQuietMax ? fmt::format("at most {}", kQuietMax) : std::to_string(count);
  Tell(fmt::format("{} sends {} requests", words.at("MACHINE"), shown));
  return {};
}

}  // namespace berth::sim
