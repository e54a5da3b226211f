// SPDX-License-Identifier: Apache-2.0
// Target: one reader of what comes from outside, fed with arbitrary bytes.
//
// Besides not crashing under the sanitizers, each states what must hold whatever was read (BERTH_CHECK): what was
// understood and is written again is understood as the same; bytes in pieces are read as bytes at once.
#pragma once

#include <span>
#include <string_view>

namespace berth::fuzz {

struct Target {
  std::string_view name;  // and its folder in corpus/
  void (*run)(std::string_view bytes);
};

[[nodiscard]] std::span<const Target> AllTargets();

// One file each, named like its folder in corpus/.
void RunBlock(std::string_view bytes);
void RunCniArgs(std::string_view bytes);
void RunCniConfig(std::string_view bytes);
void RunForwardedCall(std::string_view bytes);
void RunKubeconfig(std::string_view bytes);
void RunList(std::string_view bytes);
void RunPool(std::string_view bytes);

}  // namespace berth::fuzz
