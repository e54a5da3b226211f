// SPDX-License-Identifier: Apache-2.0
// Coverage: tells whether an input ran new code, if the code is compiled with -fsanitize-coverage=trace-pc.
#pragma once

namespace berth::fuzz {

// Forgets which code the last input ran. Call this before each input.
void BeginInput();
// True: the code that ran since BeginInput includes an edge that no earlier input ran, or ran as often (in powers of
// two).
[[nodiscard]] bool RanSomethingNew();

}  // namespace berth::fuzz
