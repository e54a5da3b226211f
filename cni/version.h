// SPDX-License-Identifier: Apache-2.0
// Version: the CNI versions that berth speaks, and the answers that need no configuration.
//
// A version must equal a text of a fixed list, like in the reference libraries (CNI SPEC, "Version considerations"):
// "0.3" and "1.1" are not versions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::cni {

// In ascending order, so code can compare versions.
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

// nullopt if `text` is not exactly one of the seven versions.
[[nodiscard]] std::optional<Version> FindVersion(std::string_view text);

// "0.1.0, 0.2.0, ...", for messages.
[[nodiscard]] std::string SupportedVersions();

// The answer to VERSION: the newest version and the list of versions. It does not depend on the version in stdin, so
// the plugin does not read stdin.
[[nodiscard]] std::string VersionAnswer();

// The text of --help on stdout, and of a call without CNI_COMMAND on stderr: purpose of the program, versions,
// examples.
[[nodiscard]] std::string AboutText(std::string_view program);

}  // namespace berth::cni
