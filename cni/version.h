// SPDX-License-Identifier: Apache-2.0
// Version: the CNI specification versions this plugin speaks, and the answers that need no configuration.
//
// Versions are compared with a fixed list by their exact text, as the reference libraries do (CNI SPEC, "Version
// considerations"): "0.3" or "1.1" is no version.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::cni {

// In order, so that "from 0.4.0 on" is a comparison.
enum class Version : std::uint8_t { k0_1_0, k0_2_0, k0_3_0, k0_3_1, k0_4_0, k1_0_0, k1_1_0 };

inline constexpr std::array kVersions = {Version::k0_1_0,
                                         Version::k0_2_0,
                                         Version::k0_3_0,
                                         Version::k0_3_1,
                                         Version::k0_4_0,
                                         Version::k1_0_0,
                                         Version::k1_1_0};
inline constexpr Version kNewestVersion = Version::k1_1_0;

// "0.1.0" to "1.1.0".
[[nodiscard]] std::string_view ToString(Version version);

// Nothing for any text that is not exactly one of the seven.
[[nodiscard]] std::optional<Version> FindVersion(std::string_view text);

// "0.1.0, 0.2.0, ...", for messages.
[[nodiscard]] std::string SupportedVersions();

// What VERSION prints: the newest version, whatever stdin holds (it need not be read), and the list.
[[nodiscard]] std::string VersionAnswer();

// What a call without CNI_COMMAND prints to stderr, and --help to stdout: what the program is for, the versions,
// examples.
[[nodiscard]] std::string AboutText(std::string_view program);

}  // namespace berth::cni
