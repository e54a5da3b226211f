// SPDX-License-Identifier: Apache-2.0
// berthctl: runs one command and ends. Exit code 0: done; 1: check found something, or berthctl refused to release an
// address or could not release it; 2: the command failed.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "cli/block_map.h"
#include "cli/check.h"
#include "cli/counted_world.h"
#include "cli/map_page.h"
#include "cli/netns.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "cli/release.h"
#include "cli/report.h"
#include "cli/show.h"
#include "cli/why.h"
#include "k8sclient/client_config.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"

namespace berth::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFound = 1;
constexpr int kFailed = 2;

void Say(const std::string& text) { std::fputs(text.c_str(), stdout); }

void Complain(const Error& error) {
  std::fprintf(stderr, "berthctl: %s\n", error.message.c_str());
  if (!error.details.empty()) std::fprintf(stderr, "  %s\n", error.details.c_str());
}

int Fail(const Error& error) {
  Complain(error);
  return kFailed;
}

Expected<std::unique_ptr<k8sclient::Api>> Connect(const Options& options) {
  std::vector<std::string> files = k8sclient::SplitKubeconfigList(k8sclient::ProcessEnvironment("KUBECONFIG"));
  if (!options.kubeconfig.empty()) files = {options.kubeconfig};
  if (files.empty()) files = {k8sclient::ProcessEnvironment("HOME") + "/.kube/config"};
  auto config = k8sclient::LoadKubeconfig(files, options.context, k8sclient::ReadWholeFile);
  if (!config) return std::unexpected(config.error());
  return k8sclient::MakeHttpApi(*std::move(config), {.user_agent = std::string("berthctl/") + kVersion});
}

Colours ColoursOf(const Options& options) {
  if (options.colour == "always") return Colours::kOn;
  const bool can = ::isatty(STDOUT_FILENO) == 1 && k8sclient::ProcessEnvironment("NO_COLOR").empty() &&
                   k8sclient::ProcessEnvironment("TERM") != "dumb";
  return options.colour == "auto" && can ? Colours::kOn : Colours::kOff;
}

// Keeps only the pool with this name and its blocks. If `pool` is empty, keeps all. Errors: kNotFound.
Expected<void> KeepPool(Inventory& inventory, const std::string& pool) {
  if (pool.empty()) return {};
  std::erase_if(inventory.pools, [&](const SeenPool& seen) { return seen.pool.name != pool; });
  std::erase_if(inventory.blocks, [&](const ipam::Block& block) { return block.pool != pool; });
  if (!inventory.pools.empty() || !inventory.blocks.empty()) return {};
  return berth::Fail(ErrorCode::kNotFound,
                     "no pool has the name " + Quoted(pool) + ", or the pool cannot be read",
                     "see the pools: berthctl show pools");
}

int WritePage(const std::string& page, const std::string& file) {
  if (file == "-") {
    Say(page);
    return kDone;
  }
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << page << std::flush;
  if (!out) {
    return Fail({.code = ErrorCode::kIo,
                 .message = "cannot write " + Quoted(file),
                 .details = "name a file in a folder that exists and that you may write to"});
  }
  Say("the map is in " + file + ": open it in a browser\n");
  return kDone;
}

int Show(const Options& options, k8sclient::Api& api) {
  const bool is_map = options.command == Command::kShowMap;
  auto inventory = ReadInventory(api, /*with_pods=*/is_map);
  if (!inventory) return Fail(inventory.error());
  for (const Error& error : inventory->unreadable) Complain(error);
  if (const auto kept = KeepPool(*inventory, options.pool); !kept) return Fail(kept.error());
  if (is_map && !options.html.empty()) return WritePage(MapPage(*inventory), options.html);
  if (is_map) {
    const Colours colours = ColoursOf(options);
    for (const ipam::Block& block : inventory->blocks) {
      const SeenPool* pool = inventory->FindPool(block.pool_uid);
      Say(MapOf(*inventory, block, pool == nullptr ? nullptr : &pool->pool, colours));
    }
    Say(MapLegend(colours));
  }
  if (options.command == Command::kShowPools) Say(Print(PoolRows(*inventory), options.format));
  if (options.command == Command::kShowBlocks) Say(Print(BlockRows(*inventory), options.format));
  if (options.command == Command::kShowAddresses) Say(Print(AddressRows(*inventory), options.format));
  return kDone;
}

int AskWho(const Options& options, k8sclient::Api& api) {
  const auto inventory = ReadInventory(api, /*with_pods=*/false);
  if (!inventory) return Fail(inventory.error());
  const auto rows = Who(*inventory, options.who);
  if (!rows) return Fail(rows.error());
  Say(Print(*rows, options.format));
  return kDone;
}

// Runs "show nodes" and "why", which both use the controller's counting.
int AskCounting(const Options& options, k8sclient::Api& api) {
  const auto read = ReadCountedWorld(api, options.pod);
  if (!read) return Fail(read.error());
  for (const Error& error : read->unreadable) Complain(error);
  const Counting counting(*read);
  if (options.command == Command::kShowNodes) {
    Say(PrintNodes(NodeRows(*read, counting), options.format));
    return kDone;
  }
  const auto rows = Why(*read, counting, options.pod);
  if (!rows) return Fail(rows.error());
  Say(PrintWhy(*rows, options.format));
  return kDone;
}

Expected<std::vector<Finding>> LookOnce(const Options& options, k8sclient::Api& api, Inventory& inventory) {
  auto read = ReadInventory(api, /*with_pods=*/true);
  if (!read) return std::unexpected(std::move(read.error()));
  inventory = *std::move(read);
  std::vector<Finding> findings = Check(inventory);
  if (options.netns.empty()) return findings;
  const auto configured = ReadConfigured(options.netns);
  if (!configured) return std::unexpected(configured.error());
  auto differing = CheckConfigured(inventory, *configured, options.node);
  if (!differing) return std::unexpected(std::move(differing.error()));
  std::ranges::move(*differing, std::back_inserter(findings));
  std::ranges::sort(findings);
  return findings;
}

int RunCheck(const Options& options, k8sclient::Api& api) {
  Inventory inventory;
  auto looked = LookOnce(options, api, inventory);
  if (!looked) return Fail(looked.error());
  std::vector<Finding> findings = *std::move(looked);
  if (!findings.empty() && options.settle.count() > 0) {
    std::this_thread::sleep_for(options.settle);
    looked = LookOnce(options, api, inventory);
    if (!looked) return Fail(looked.error());
    findings = InBoth(findings, *looked);
  }
  if (options.format == Format::kJson) {
    Say(ReportOf(inventory, findings).dump(2) + "\n");
  } else {
    for (const Finding& finding : findings) {
      Say(finding.kind + ": " + finding.object + (finding.address.empty() ? "" : " " + finding.address) +
          (finding.object.empty() ? "" : ": ") + finding.message + "\n    " + finding.remedy + "\n");
    }
    Say("checked " + std::to_string(inventory.blocks.size()) + " blocks of " + std::to_string(inventory.pools.size()) +
        " pools: " + (findings.empty() ? "nothing is wrong" : std::to_string(findings.size()) + " problems") + "\n");
  }
  return findings.empty() ? kDone : kFound;
}

Expected<std::vector<Release>> ReleasesOf(const Options& options) {
  std::vector<Release> releases;
  if (!options.report.empty()) {
    std::ifstream file;
    if (options.report != "-") {
      file.open(options.report);
      if (!file) return Fail(ErrorCode::kIo, "cannot read the report " + Quoted(options.report));
    }
    std::istream& in = options.report == "-" ? std::cin : file;
    auto read = ReadReport(std::string(std::istreambuf_iterator<char>(in), {}));
    if (!read) return read;
    releases = *std::move(read);
  }
  for (const std::string& text : options.addresses) {
    const auto address = ipam::Address::Parse(text);
    if (!address) return std::unexpected(address.error());
    releases.push_back({.address = *address, .space = options.space});
  }
  for (Release& release : releases) release.is_sure = options.is_sure;
  return releases;
}

int RunRelease(const Options& options, k8sclient::Api& api) {
  const auto releases = ReleasesOf(options);
  if (!releases) return Fail(releases.error());
  if (releases->empty()) Say("nothing to release\n");
  int code = kDone;
  Releaser releaser(api);
  for (const Release& release : *releases) {
    const auto done = releaser.Perform(release);
    if (done) {
      Say(*done + "\n");
    } else {
      Complain(done.error());
      code = kFound;
    }
  }
  return code;
}

int Run(const Options& options) {
  auto api = Connect(options);
  if (!api) return Fail(api.error());
  switch (options.command) {
    case Command::kWho:
      return AskWho(options, **api);
    case Command::kShowNodes:
    case Command::kWhy:
      return AskCounting(options, **api);
    case Command::kCheck:
      return RunCheck(options, **api);
    case Command::kRelease:
      return RunRelease(options, **api);
    default:
      return Show(options, **api);
  }
}

}  // namespace
}  // namespace berth::cli

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): the standard declares it so
  const auto parsed = berth::cli::ParseOptions(argc, argv, berth::kVersionAndCommit);
  if (const auto* exit = std::get_if<berth::cli::Exit>(&parsed)) return exit->code;
  return berth::cli::Run(std::get<berth::cli::Options>(parsed));
}
