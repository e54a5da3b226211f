// SPDX-License-Identifier: Apache-2.0
// Defines the commands and options, in the order of --help.
#include "cli/options.h"

#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>

#include "ipam/pool.h"

namespace berth::cli {

namespace {

constexpr int kUsageExit = 2;

constexpr const char* kWhereToBegin =
    R"(berthctl shows which pod has which address, and finds what is wrong. Begin with:

  berthctl show map      every address of every block, as one character
  berthctl check         duplicates, leaks, wrong counts and unusable objects
  berthctl show nodes    how many addresses each node has for pods

All commands: berthctl --help
)";

// Adds a subcommand that sets `command`.
CLI::App* Add(CLI::App& parent, Options& options, Command command, const char* name, const char* says) {
  CLI::App* sub = parent.add_subcommand(name, says);
  sub->callback([&options, command] { options.command = command; });
  return sub;
}

void AddFormat(CLI::App& app, Options& options, const std::map<std::string, Format>& formats) {
  std::string words;
  for (const auto& [word, format] : formats) words += (words.empty() ? "in {" : ",") + word;
  app.add_option("-o,--output", options.format, "Output format")
      ->type_name("WORD")
      // description() replaces CLI11's own list of words, which also contains the enum's numbers.
      ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description(words + "}"))
      ->default_str("table");
}

void AddShow(CLI::App& app, Options& options) {
  CLI::App* show = app.add_subcommand(
      "show",
      "Print pools, blocks, addresses, how many addresses each node shows the scheduler, or a map of all addresses");
  show->require_subcommand(1);
  show->footer(
      "Examples:\n  berthctl show pools\n  berthctl show blocks --pool web -o yaml\n  berthctl show nodes\n"
      "  berthctl show map --pool web\n"
      "  berthctl show map --html map.html");
  const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}};
  for (CLI::App* sub :
       {Add(*show, options, Command::kShowPools, "pools", "Each pool with its subnet and how many addresses are left"),
        Add(*show, options, Command::kShowBlocks, "blocks", "Each block with its node and its addresses by state"),
        Add(*show,
            options,
            Command::kShowAddresses,
            "addresses",
            "Each address with an entry: its state, its pod, and since when")}) {
    AddFormat(*sub, options, formats);
    sub->add_option("--pool", options.pool, "Only this pool");
  }
  CLI::App* nodes = Add(*show,
                        options,
                        Command::kShowNodes,
                        "nodes",
                        "How many addresses each node shows the scheduler as ipam.berth.dev/<resource>, how many it "
                        "should show, and why");
  AddFormat(*nodes, options, formats);
  nodes->footer("Examples:\n  berthctl show nodes\n  berthctl show nodes -o json");
  CLI::App* map = Add(*show, options, Command::kShowMap, "map", "Every address of every block, as one character");
  map->add_option("--pool", options.pool, "Only this pool");
  map->add_option(
         "--color", options.colour, "When to use colours; auto: if stdout is a terminal and NO_COLOR is not set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  map->add_option(
         "--html",
         options.html,
         "Write the map to this file as a web page, with a table of all addresses; - is stdout. The page is one "
         "file and loads nothing. If there are many blocks, name one pool with --pool")
      ->type_name("FILE");
  map->footer("Examples:\n  berthctl show map\n  berthctl show map --pool web --html map.html");
}

void AddWho(CLI::App& app, Options& options) {
  const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}};
  CLI::App* who =
      Add(app, options, Command::kWho, "who", "Tell which pod has an address, or which addresses a pod has");
  who->footer("Examples:\n  berthctl who 10.55.0.7\n  berthctl who team-a/web-0 -o json");
  who->add_option("what", options.who, "An address, or <namespace>/<pod>")->required();
  AddFormat(*who, options, formats);
  CLI::App* why =
      Add(app,
          options,
          Command::kWhy,
          "why",
          "Tell what a pod without an address waits for, pool by pool and node by node. For a pod with addresses, "
          "tell the pools and blocks of these addresses");
  why->footer("Examples:\n  berthctl why team-a/web-0\n  berthctl why team-a/web-0 -o json");
  why->add_option("pod", options.pod, "<namespace>/<pod>")->required();
  AddFormat(*why, options, formats);
}

void AddRelease(CLI::App& app, Options& options) {
  CLI::App* release =
      Add(app,
          options,
          Command::kRelease,
          "release",
          "Free addresses whose pods are gone. berthctl looks at the pod and its node first, and refuses if "
          "the address may be in use. You need the RBAC verb reconcile or override on ipblocks");
  release->footer(
      "Examples:\n  berthctl release 10.55.0.7\n  berthctl check -o json | berthctl release --report -\n"
      "  berthctl release 10.55.0.7 --sure      # the pod is unknown, and you saw that no container has the address");
  release->add_option("address", options.addresses, "Addresses to release");
  release->add_option("--report",
                      options.report,
                      "File with a report of \"berthctl check -o json\": release every address that has the finding "
                      "pod-gone; - is stdin");
  release->add_option("--space", options.space, "Space of the addresses")
      ->default_str(std::string(ipam::kDefaultSpace));
  release->add_flag(
      "--sure",
      options.is_sure,
      "You saw that no container has the address: also release addresses whose pod is static or unknown, and let no "
      "agent look for the container");
}

}  // namespace

std::variant<Options, Exit> ParseOptions(int argc, const char* const* argv, const std::string& version) {
  Options options;
  options.space = ipam::kDefaultSpace;
  if (argc <= 1) {
    std::fputs(kWhereToBegin, stdout);
    return Exit{0};
  }
  CLI::App app("Shows which pod has which address of berth's pools, finds what is wrong, and frees leaked addresses.",
               "berthctl");
  app.set_version_flag("--version", "berthctl " + version);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Examples:\n  berthctl show map\n  berthctl check\n  berthctl who 10.55.0.7\n  berthctl who team-a/web-0\n"
      "  berthctl show nodes\n  berthctl why team-a/web-0");
  app.add_option(
      "--kubeconfig", options.kubeconfig, "Credentials for the API server; default: $KUBECONFIG, or ~/.kube/config");
  app.add_option("--context", options.context, "Context of the kubeconfig; default: its current context");
  AddShow(app, options);
  AddWho(app, options);

  CLI::App* check = Add(app,
                        options,
                        Command::kCheck,
                        "check",
                        "Look for duplicates, leaks, wrong counts and unusable objects. Exit code 0: nothing is wrong; "
                        "1: something is wrong; 2: berthctl could not find out");
  check->footer(
      "Examples:\n  berthctl check\n  berthctl check -o json >report.json\n"
      "  berthctl check --netns /run/netns --node worker-1      # also compares with the interfaces of pods");
  AddFormat(*check, options, {{"table", Format::kTable}, {"json", Format::kJson}});
  unsigned settle_s = static_cast<unsigned>(options.settle.count());
  check
      ->add_option(
          "--settle",
          settle_s,
          "berthctl compares twice, so many seconds apart, and reports what it finds both times. 0: compare once")
      ->capture_default_str();
  CLI::Option* netns = check->add_option(
      "--netns",
      options.netns,
      "Also compare the entries with the addresses of the network namespaces in this folder. Run berthctl as root on "
      "a node");
  check->add_option("--node", options.node, "With --netns: the name of this node")->needs(netns);
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
