// SPDX-License-Identifier: Apache-2.0
// The commands and flags, as --help shows them.
#include "cli/options.h"

#include <map>

#include <CLI/CLI.hpp>

#include "ipam/pool.h"

namespace berth::cli {

namespace {

constexpr int kUsageExit = 2;

// Sets `command` when the subcommand was given.
CLI::App* Add(CLI::App& parent, Options& options, Command command, const char* name, const char* says) {
  CLI::App* sub = parent.add_subcommand(name, says);
  sub->callback([&options, command] { options.command = command; });
  return sub;
}

void AddFormat(CLI::App& app, Options& options, const std::map<std::string, Format>& formats) {
  std::string words;
  for (const auto& [word, format] : formats) words += (words.empty() ? "in {" : ",") + word;
  app.add_option("-o,--output", options.format, "How to print")
      ->type_name("WORD")  // and a description: those that CLI11 has name the numbers behind the words
      ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description(words + "}"))
      ->default_str("table");
}

void AddShow(CLI::App& app, Options& options) {
  CLI::App* show = app.add_subcommand("show", "Print pools, blocks or addresses");
  show->require_subcommand(1);
  show->footer(
      "Examples:\n  berthctl show pools\n  berthctl show blocks --pool web -o yaml\n  berthctl show map --pool web");
  const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}};
  for (CLI::App* sub :
       {Add(*show, options, Command::kShowPools, "pools", "What may be handed out, and how much is left"),
        Add(*show, options, Command::kShowBlocks, "blocks", "Which node has which part of a pool"),
        Add(*show, options, Command::kShowAddresses, "addresses", "Who has each address")}) {
    AddFormat(*sub, options, formats);
    sub->add_option("--pool", options.pool, "Of this pool only");
  }
  CLI::App* map = Add(*show, options, Command::kShowMap, "map", "One character for each address");
  map->add_option("--pool", options.pool, "Of this pool only");
  map->add_option("--color", options.colour, "Colours: auto is on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
}

void AddRelease(CLI::App& app, Options& options) {
  CLI::App* release = Add(app,
                          options,
                          Command::kRelease,
                          "release",
                          "End the entries of addresses whose pods are gone; looks at pod and node first. It needs the "
                          "verb reconcile or override on ipblocks");
  release->footer(
      "Examples:\n  berthctl release 10.55.0.7\n  berthctl check -o json | berthctl release --report -\n"
      "  berthctl release 10.55.0.7 --sure      # its pod is unknown, and you saw that no container has it");
  release->add_option("address", options.addresses, "Addresses");
  release->add_option("--report", options.report, "All that this report of check calls pod-gone; - is stdin");
  release->add_option("--space", options.space, "Address space of the addresses")
      ->default_str(std::string(ipam::kDefaultSpace));
  release->add_flag("--sure", options.is_sure, "Also where nobody can look for the pod: it is static or unknown");
}

}  // namespace

std::variant<Options, Exit> ParseOptions(int argc, const char* const* argv, const std::string& version) {
  Options options;
  options.space = ipam::kDefaultSpace;
  CLI::App app("Shows and checks who has which address of berth's pools.", "berthctl");
  app.set_version_flag("--version", "berthctl " + version);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Examples:\n  berthctl show pools\n  berthctl who 10.55.0.7\n  berthctl who team-a/web-0\n  berthctl check");
  app.add_option("--kubeconfig", options.kubeconfig, "Default: $KUBECONFIG, or ~/.kube/config");
  app.add_option("--context", options.context, "Of the kubeconfig. Default: its current one");
  AddShow(app, options);

  CLI::App* who = Add(app, options, Command::kWho, "who", "Who has an address, or which addresses a pod has");
  who->footer("Examples:\n  berthctl who 10.55.0.7\n  berthctl who team-a/web-0 -o json");
  who->add_option("what", options.who, "An address, or <namespace>/<pod>")->required();
  AddFormat(*who, options, {{"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}});

  CLI::App* check =
      Add(app,
          options,
          Command::kCheck,
          "check",
          "Look for duplicates, leaks and wrong counts. Exit code 0: nothing is wrong, 1: something is, 2: it "
          "could not be found out");
  check->footer(
      "Examples:\n  berthctl check\n  berthctl check -o json >report.json\n"
      "  berthctl check --netns /run/netns --node worker-1      # what its pods have indeed");
  AddFormat(*check, options, {{"table", Format::kTable}, {"json", Format::kJson}});
  unsigned settle_s = static_cast<unsigned>(options.settle.count());
  check->add_option("--settle", settle_s, "Seconds between two looks; only what both find is wrong. 0: one look")
      ->capture_default_str();
  CLI::Option* netns = check->add_option(
      "--netns", options.netns, "On a node, as root: also compare with the network namespaces in this folder");
  check->add_option("--node", options.node, "With --netns: the name of the Node that this is")->needs(netns);
  netns->needs("--node");
  AddRelease(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Exit{app.exit(error) == 0 ? 0 : kUsageExit};
  }
  options.settle = std::chrono::seconds(settle_s);
  return options;
}

}  // namespace berth::cli
