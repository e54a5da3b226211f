// SPDX-License-Identifier: Apache-2.0
// Coverage: tells whether an input ran new code, if the code is compiled with -fsanitize-coverage=trace-pc.
#pragma once

namespace berth::fuzz {

// Begins a new input.
void BeginInput();
// Whether the present input ran code that no earlier input ran, or ran it more often (in powers of two).
[[nodiscard]] bool RanSomethingNew();

}  // namespace berth::fuzz
