// SPDX-License-Identifier: Apache-2.0
// Logging: one line per event on stderr, as text or as JSON. A message is a constant text and key=value pairs.
#pragma once

#include <string>

namespace berth::reconciler {

// `level`: debug, info, warn or error.
void SetUpLogging(const std::string& level, bool as_json);

}  // namespace berth::reconciler
