// SPDX-License-Identifier: Apache-2.0
// Environment: the CNI_* variables of one call, checked.
//
// Which variable each verb needs, what it may hold, and which complaint comes first follow the reference skeleton,
// which is stricter than the text of the specification (CNI SPEC, section "Parameters"; docs/cni.md). An empty variable
// is a missing one: runtimes export all names, always.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::cni {

enum class Verb : std::uint8_t {
  kAbout,  // no CNI_COMMAND: a person started the program
  kAdd,
  kDel,
  kCheck,
  kGc,
  kStatus,
  kVersion,
};

// "ADD"; "" for kAbout.
[[nodiscard]] std::string_view ToString(Verb verb);

struct Environment {
  Verb verb = Verb::kAbout;
  std::string container_id;     // empty for GC, STATUS and VERSION
  std::string ifname;           // likewise
  std::string netns;            // opaque; may be empty for DEL; the path may no longer exist
  std::string args;             // CNI_ARGS, not parsed (args.h)
  bool netns_override = false;  // CNI_NETNS may be this process's own namespace

  friend bool operator==(const Environment&, const Environment&) = default;
};

// getenv, or a map in tests. A null pointer and "" mean the same.
using ReadVariable = std::function<const char*(const char* name)>;

// Errors: kEnvironment: unknown verb; malformed container ID or interface name (details quote it); else all missing
// variables in one message. Variables that a verb does not need are not looked at.
[[nodiscard]] Expected<Environment> ParseEnvironment(const ReadVariable& read);

// Letters, digits, "_", "." and "-", beginning with a letter or digit: the rule of container IDs and network names.
[[nodiscard]] bool IsIdentifier(std::string_view text);

// The rule of Linux for interface names, plus ":" and every Unicode white space. Empty: the name is good; else what is
// wrong with it.
[[nodiscard]] std::string_view InterfaceNameFault(std::string_view name);

}  // namespace berth::cni
