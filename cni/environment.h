// SPDX-License-Identifier: Apache-2.0
// Environment: the checked CNI_* variables of one call.
//
// The required variables of each verb, their allowed values and the order of the checks follow the reference
// implementation (skel), which is stricter than the text of the specification (CNI SPEC, section "Parameters";
// docs/cni.md). An empty variable counts as missing, because runtimes always export all names.
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
  std::string ifname;           // empty for GC, STATUS and VERSION
  std::string netns;            // not checked; may be empty for DEL; the path may no longer exist
  std::string args;             // CNI_ARGS, not parsed (args.h)
  bool netns_override = false;  // true: CNI_NETNS may be this process's own network namespace

  friend bool operator==(const Environment&, const Environment&) = default;
};

// getenv, or a map in tests. A null pointer means the same as "".
using ReadVariable = std::function<const char*(const char* name)>;

// Ignores the variables that the verb does not need. Errors: kEnvironment: unknown verb; malformed container ID or
// interface name (the details quote it); otherwise one message with all missing variables.
[[nodiscard]] Expected<Environment> ParseEnvironment(const ReadVariable& read);

// True if `text` consists of letters, digits, "_", "." and "-", and begins with a letter or digit. Container IDs and
// network names have this form.
[[nodiscard]] bool IsIdentifier(std::string_view text);

// Checks an interface name by the rules of Linux, and refuses ":" and every Unicode white space. Returns what is wrong
// with the name; empty if the name is valid.
[[nodiscard]] std::string_view InterfaceNameFault(std::string_view name);

}  // namespace berth::cni
