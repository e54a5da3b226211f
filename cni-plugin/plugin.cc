// SPDX-License-Identifier: Apache-2.0
// Reads a call and prints its answer.
#include "cni-plugin/plugin.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <unistd.h>

#include "cni-plugin/allowed_paths.h"
#include "cni/error.h"

namespace berth::cni_plugin {
namespace {

Expected<void> WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(ErrorCode::kIo, std::string("write the answer to stdout: ") + std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

int Run(const Program& program, std::span<char* const> arguments, const std::function<int(PluginCall call)>& serve) {
  if (arguments.size() > 1 && std::string_view(arguments[1]) == "--version") {
    const std::string line = std::string(program.name) + " " + std::string(program.version);
    return PrintAnswer(line) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (arguments.size() > 1 && std::string_view(arguments[1]) == "--help") {
    return PrintAnswer(cni::AboutText(program.name)) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  auto environment = cni::ParseEnvironment([](const char* name) { return std::getenv(name); });
  if (!environment) return PrintError(environment.error(), cni::kNewestVersion);
  if (environment->verb == cni::Verb::kAbout) {
    static_cast<void>(WriteAll(STDERR_FILENO, cni::AboutText(program.name)));
    return EXIT_SUCCESS;
  }
  if (environment->verb == cni::Verb::kVersion) {
    const auto printed = PrintAnswer(cni::VersionAnswer());
    return printed ? EXIT_SUCCESS : PrintError(printed.error(), cni::kNewestVersion);
  }
  auto text = ReadAll(STDIN_FILENO, cni::kConfigBytesMax, "the network configuration from stdin");
  if (!text) return PrintError(text.error(), cni::kNewestVersion);
  auto tree = cni::ParseConfigTree(*text, environment->verb);
  auto config = tree ? cni::ParseConfig(*tree, environment->verb) : std::unexpected(tree.error());
  if (!config) return PrintError(config.error(), tree ? cni::VersionForErrors(*tree) : cni::VersionForErrors(*text));
  text->clear();
  text->shrink_to_fit();  // free memory: a call may wait for minutes
  if (const auto checked = cni::CheckPaths(config->ipam, program.paths, PathChecksOfNode()); !checked) {
    return PrintError(checked.error(), config->version);
  }
  return serve({.environment = *std::move(environment), .tree = *std::move(tree), .config = *std::move(config)});
}

}  // namespace

int RunPlugin(const Program& program, std::span<char* const> arguments,
              const std::function<int(PluginCall call)>& serve) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return Run(program, arguments, serve);
  } catch (const std::exception& e) {
    // Mostly std::bad_alloc: berth's own code throws nothing on purpose.
    return PrintError({.code = ErrorCode::kInternal, .message = e.what()}, cni::kNewestVersion);
  }
}

Expected<std::string> ReadAll(int descriptor, std::size_t bytes_max, std::string_view what) {
  std::string text;
  constexpr std::size_t kStep = std::size_t{4} << 10;  // most texts are shorter
  while (text.size() <= bytes_max) {
    const std::size_t before = text.size();
    text.resize(before + kStep);
    const ssize_t count = read(descriptor, text.data() + before, kStep);
    text.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) {
      return Fail(ErrorCode::kIo, "read " + std::string(what) + ": " + std::strerror(errno));
    }
  }
  return text;
}

Expected<void> PrintAnswer(std::string_view text) {
  std::string line(text);
  if (!line.ends_with('\n')) line += '\n';
  return WriteAll(STDOUT_FILENO, line);
}

int PrintError(const Error& error, cni::Version version) {
  static_cast<void>(PrintAnswer(cni::ErrorJson(error, version)));
  return EXIT_FAILURE;
}

void Complain(std::string_view program, const Error& error) {
  std::string line = std::string(program) + ": " + error.message;
  if (!error.details.empty()) line += " (" + error.details + ")";
  static_cast<void>(WriteAll(STDERR_FILENO, line + "\n"));
}

}  // namespace berth::cni_plugin
