// SPDX-License-Identifier: Apache-2.0
// Logging: one line per event on stderr, as text or as JSON. A message is a constant text and key=value pairs.
#pragma once

#include <string>

#include "ipam/block.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// `level`: debug, info, warn or error.
void SetUpLogging(const std::string& level, bool as_json);

// Makes the value of a key from a text that another program wrote. Quotes the text unless it has only characters of
// Kubernetes names, ":" and "/". So the text cannot look like another key or line.
[[nodiscard]] std::string LogValue(const std::string& foreign);

// Logs a write of a pool's status: a change of the condition Ready at level info, anything else at debug.
void LogPoolStatus(const SeenPool& before, const SeenPool& after);

// Logs that an entry was freed, and what proves that no container uses the address: the node is gone; the node's agent
// looks for the container's network namespace before it gives the address to a pod; or only time has passed.
void LogFreed(const ipam::Block& after, const FreedEntry& freed);

}  // namespace berth::reconciler
