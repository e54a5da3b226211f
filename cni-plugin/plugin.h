// SPDX-License-Identifier: Apache-2.0
// RunPlugin: the code that `berth` and `berth-direct` share. It reads one call, and answers the call itself if that
// needs neither an agent nor the API server.
//
// stdout gets exactly one JSON document or nothing. All text for people goes to stderr.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "cni/version.h"

namespace berth::cni_plugin {

// An ADD, DEL, CHECK, GC or STATUS with checked environment and configuration.
struct PluginCall {
  cni::Environment environment;
  cni::ConfigTree tree;  // `config` was parsed from this tree
  cni::NetworkConfig config;
};

struct Program {
  std::string_view name;
  std::string_view version;
  std::span<const std::string_view> paths;  // fields of `ipam` whose paths the program opens
};

// main calls RunPlugin and returns its result, the exit status. Only people pass arguments: --version, --help.
// RunPlugin itself answers malformed calls, VERSION (without reading stdin) and calls by people, and calls `serve` for
// verbs that need an agent or the API server. Ignores SIGPIPE: if the reader is gone, write(2) fails, and the program
// frees the address. RunPlugin catches all exceptions.
[[nodiscard]] int RunPlugin(const Program& program, std::span<char* const> arguments,
                            const std::function<int(PluginCall call)>& serve);

// Reads to the end of the file, or up to 4 KiB more than `bytes_max`. `what`: for messages. Errors: kIo.
[[nodiscard]] Expected<std::string> ReadAll(int descriptor, std::size_t bytes_max, std::string_view what);

// Prints `text` and a newline to stdout. Errors: kIo: for example, the reader is gone, or the disk is full.
[[nodiscard]] Expected<void> PrintAnswer(std::string_view text);

// Prints the error object and returns the exit status.
[[nodiscard]] int PrintError(const Error& error, cni::Version version);

// Writes one line to stderr, which a runtime shows or logs.
void Complain(std::string_view program, const Error& error);

}  // namespace berth::cni_plugin
