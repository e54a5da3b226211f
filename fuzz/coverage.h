// SPDX-License-Identifier: Apache-2.0
// Coverage: which code an input ran, for code compiled with -fsanitize-coverage=trace-pc.
#pragma once

namespace berth::fuzz {

// Forgets what ran so far.
void BeginInput();
// Whether something ran since that never ran before, or never that often (in powers of two).
[[nodiscard]] bool RanSomethingNew();

}  // namespace berth::fuzz
