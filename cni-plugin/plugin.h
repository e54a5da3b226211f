// SPDX-License-Identifier: Apache-2.0
// RunPlugin: what `berth` and `berth-direct` do alike: read one call, answer what needs nobody else, print.
//
// stdout carries exactly one JSON document or nothing; everything for people goes to stderr.
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

// ADD, DEL, CHECK, GC or STATUS; the environment and the configuration are checked.
struct PluginCall {
  cni::Environment environment;
  cni::ConfigTree tree;  // what the configuration was read from
  cni::NetworkConfig config;
};

struct Program {
  std::string_view name;
  std::string_view version;
  std::span<const std::string_view> paths;  // fields of `ipam` that name a file which it opens
};

// To be called by main, with its result as exit status. Arguments are for people alone: --version. `serve` is called
// for verbs that need an agent or the API server; malformed calls, VERSION (without a look at stdin) and calls by
// people are answered here. Ignores SIGPIPE: a reader that is gone is an error of write(2), after which an address is
// given back. Exceptions end here.
[[nodiscard]] int RunPlugin(const Program& program, std::span<char* const> arguments,
                            const std::function<int(PluginCall call)>& serve);

// Everything up to the end of file, or one step beyond `bytes_max`. Errors: kIo.
[[nodiscard]] Expected<std::string> ReadAll(int descriptor, std::size_t bytes_max, std::string_view what);

// Errors: kIo: nobody reads any more, or there is no space.
[[nodiscard]] Expected<void> PrintAnswer(std::string_view text);

// Prints the error object and returns the exit status that goes with it.
[[nodiscard]] int PrintError(const Error& error, cni::Version version);

// One line to stderr, which a runtime shows or logs.
void Complain(std::string_view program, const Error& error);

}  // namespace berth::cni_plugin
