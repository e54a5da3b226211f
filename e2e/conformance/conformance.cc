// SPDX-License-Identifier: Apache-2.0
// Conformance: makes calls and checks their outcomes.
#include "e2e/conformance/conformance.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <poll.h>
#include <random>
#include <thread>
#include <unistd.h>

#include "e2e/agent_process.h"

namespace berth::conformance {
namespace {

std::string MakeTag() {
  std::random_device random;
  std::string tag;
  for (int i = 0; i < 8; ++i) tag += "0123456789abcdef"[random() % 16];
  return tag;
}

// Runtimes react to these words in an error (contract 1.8).
constexpr std::string_view kLoadedPhrases[] = {"not found", "no such file or directory", "network is not ready"};

std::string Describe(const PluginOutcome& outcome) {
  return "exit=" + std::to_string(outcome.exit_code) + " signal=" + std::to_string(outcome.signal) +
         (outcome.timed_out ? " (killed, took too long)" : "") + "\nstdout: " + outcome.out.substr(0, 2000) +
         "\nstderr: " + outcome.err.substr(0, 2000);
}

}  // namespace

Call Call::With(const std::string& variable, std::string value) const {
  Call call = *this;
  call.environment[variable] = std::move(value);
  return call;
}

Call Call::Without(const std::string& variable) const {
  Call call = *this;
  call.environment.erase(variable);
  return call;
}

Call Call::Config(const json& patch) const {
  Call call = *this;
  call.config.merge_patch(patch);
  return call;
}

Call Call::Input(std::string text) const {
  Call call = *this;
  call.input = std::move(text);
  return call;
}

Call Call::PrevResult(const json& result) const {
  Call call = *this;
  call.config["prevResult"] = result;
  return call;
}

Conformance::Conformance() : tag_(MakeTag()) {}

Conformance::~Conformance() {
  for (const std::string& pool : pools_) {
    cluster().RemoveBlocks(pool);
    cluster().DeletePool(pool);
  }
  if (!scratch_.empty()) std::filesystem::remove_all(scratch_);
}

e2e::TestCluster& Conformance::cluster() {
  static e2e::TestCluster cluster(Settings::Get().admin_kubeconfig);
  return cluster;
}

std::string Conformance::Scratch() {
  if (scratch_.empty()) {
    scratch_ = Settings::Get().scratch_dir + "/" + tag_;
    std::filesystem::create_directories(scratch_);
  }
  return scratch_;
}

Call Conformance::Base(const std::string& verb, const std::vector<std::string>& pools) {
  const Settings& settings = Settings::Get();
  const std::string node = settings.NodeName();
  Call call;
  call.environment = {{"CNI_COMMAND", verb},
                      {"CNI_CONTAINERID", "c1"},
                      {"CNI_NETNS", "/some/where"},
                      {"CNI_IFNAME", "eth0"},
                      {"CNI_PATH", "/opt/cni/bin"}};
  call.config = {{"cniVersion", "1.1.0"},
                 {"name", "net-" + tag_},
                 {"type", "bridge"},
                 {"ipam",
                  {{"type", "berth"},
                   {"pools", pools},
                   {"kubeconfig", settings.NodeKubeconfig(node)},
                   {"nodeName", node},
                   {"agentSocket", settings.AgentSocket(node)},
                   {"stateDir", settings.StateDir(node)}}}};
  return call;
}

Call Conformance::Base(const std::string& verb) {
  if (pools_.empty()) MakePool();
  return Base(verb, {pools_.front()});
}

std::string Conformance::MakePool(const json& patch) {
  // warmAddresses 0: otherwise the agents of all shards would claim the pool's few blocks in advance.
  json spec = {{"space", "s-" + tag_},
               {"subnet", "10.1.2.0/29"},
               {"gateway", "10.1.2.1"},
               {"warmAddresses", 0},
               {"resource", ""}};
  spec.merge_patch(patch);
  pools_.push_back("p" + std::to_string(pools_.size() + 1) + "-" + tag_);
  cluster().CreateReadyPool(pools_.back(), spec);
  return pools_.back();
}

std::string Conformance::MakePool6(const json& patch) {
  json spec = {{"subnet", "2001:db8:1:2::/125"}, {"gateway", "2001:db8:1:2::1"}};
  spec.merge_patch(patch);
  return MakePool(spec);
}

cni_testing::PluginCall Conformance::Prepare(const Call& call) const {
  const json::json_pointer socket("/ipam/agentSocket");
  if (InAgentMode() && call.config.contains(socket) && call.config.at(socket).is_string()) {
    const std::lock_guard lock(sockets_mutex_);
    sockets_.insert(call.config.at(socket).get<std::string>());
  }
  return {.binary = call.binary.empty() ? Settings::Get().plugin : call.binary,
          .environment = call.environment,
          .input = call.input.value_or(call.config.dump()),
          .in = call.in,
          .out = call.out,
          .chunk_bytes = call.chunk_bytes};
}

PluginOutcome Conformance::Run(const Call& call) const { return cni_testing::RunPlugin(Prepare(call)); }

std::vector<PluginOutcome> Conformance::RunAll(const std::vector<Call>& calls) const {
  std::vector<PluginOutcome> outcomes(calls.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = Run(calls[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

json Conformance::Ok(const Call& call) {
  const PluginOutcome outcome = Run(call);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(outcome);
  if (outcome.out.empty()) return nullptr;
  const json object = json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(object.is_discarded()) << "stdout is not one JSON value\n" << Describe(outcome);
  return object;
}

void Conformance::OkSilently(const Call& call) const {
  const PluginOutcome outcome = Run(call);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(outcome);
  EXPECT_EQ(outcome.out, "");
}

json ExpectError(const PluginOutcome& outcome, const std::set<unsigned>& codes, std::string_view about) {
  EXPECT_GT(outcome.exit_code, 0) << Describe(outcome);
  json object = json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(object.is_object()) << "stdout is not one JSON object\n" << Describe(outcome);
  if (!object.is_object()) return json::object();
  const json code = object.value("code", json());
  EXPECT_TRUE(code.is_number_unsigned() && codes.contains(code.get<unsigned>()))
      << "wanted code " << testing::PrintToString(codes) << "\n"
      << Describe(outcome);
  const std::string text = object.value("msg", "") + " / " + object.value("details", "");
  EXPECT_FALSE(object.value("msg", "").empty()) << Describe(outcome);
  EXPECT_THAT(text, testing::HasSubstr(std::string(about)));
  for (const std::string_view phrase : kLoadedPhrases) {
    EXPECT_THAT(text, testing::Not(testing::HasSubstr(std::string(phrase)))) << "runtimes act on these words";
  }
  return object;
}

json Conformance::Error(const Call& call, const std::set<unsigned>& codes, std::string_view about) {
  const std::set<std::string> before = Allocated();
  const json object = ExpectError(Run(call), codes, about);
  EXPECT_EQ(Allocated(), before) << "a failed call changed what is allocated";
  return object;
}

std::set<std::string> UnwrittenOf(const std::string& agent_socket) {
  const auto reply = e2e::GetOverSocket(agent_socket, "/debug/blocks");
  const json state = reply ? json::parse(reply->body, nullptr, false) : json();
  if (!state.is_object()) return {};
  auto unwritten = state.value("journal", std::set<std::string>());
  unwritten.merge(state.value("handedOut", std::set<std::string>()));
  return unwritten;
}

void Conformance::AwaitWritten() const {
  constexpr std::chrono::seconds kLimit{20};
  for (const std::string& socket : sockets_) {
    const std::set<std::string> answered = UnwrittenOf(socket);
    // Waits only for these attachments, because other tests call the same agent.
    const auto is_written = [&] {
      const std::set<std::string> left = UnwrittenOf(socket);
      return std::ranges::none_of(answered,
                                  [&left](const std::string& attachment) { return left.contains(attachment); });
    };
    if (!answered.empty()) static_cast<void>(Eventually(is_written, kLimit));
  }
}

std::set<std::string> Conformance::Allocated() {
  AwaitWritten();
  std::set<std::string> addresses;
  for (const std::string& pool : pools_) {
    for (const auto& [address, entry] : cluster().Entries(pool)) addresses.insert(address);
  }
  return addresses;
}

void Conformance::ExpectAllocatedAtLast(const std::set<std::string>& addresses) {
  if (InAgentMode() && Eventually([&] { return Allocated() == addresses; })) return;
  EXPECT_EQ(Allocated(), addresses);
}

bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  constexpr int kPauseMillis = 5;
  for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    ::poll(nullptr, 0, kPauseMillis);
  }
  return condition();
}

std::vector<std::string> Addresses(const json& result) {
  std::vector<std::string> addresses;
  for (const char* family : {"ip4", "ip6"}) {
    if (result.contains(family)) addresses.push_back(result[family].value("ip", ""));
  }
  for (const json& ip : result.value("ips", json::array())) addresses.push_back(ip.value("address", ""));
  return addresses;
}

std::string Host(std::string_view cidr) { return std::string(cidr.substr(0, cidr.find('/'))); }

}  // namespace berth::conformance
