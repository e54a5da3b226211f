// SPDX-License-Identifier: Apache-2.0
// Target: passes arbitrary bytes to one reader of data from outside.
//
// A reader must not crash under the sanitizers. Each target also checks (BERTH_CHECK) what must hold for all bytes: a
// reader understands the text of a value that it has read as the same value, and reads the same from pieces as from the
// whole text.
#pragma once

#include <span>
#include <string_view>

namespace berth::fuzz {

struct Target {
  std::string_view name;  // also the name of its folder in corpus/
  void (*run)(std::string_view bytes);
};

[[nodiscard]] std::span<const Target> AllTargets();

// Each function is in a file with the same name as its folder in corpus/.
void RunBlock(std::string_view bytes);
void RunCniArgs(std::string_view bytes);
void RunCniConfig(std::string_view bytes);
void RunForwardedCall(std::string_view bytes);
void RunKubeconfig(std::string_view bytes);
void RunList(std::string_view bytes);
void RunPool(std::string_view bytes);

}  // namespace berth::fuzz
