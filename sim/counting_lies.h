// SPDX-License-Identifier: Apache-2.0
// Lies of plants (plants.h) about objects from which the controller calculates address counts.
#pragma once

#include <string>

#include "k8sclient/api.h"
#include "sim/network.h"

namespace berth::sim {

// These two show cooling addresses as free: the first in answers, the second in lines of watches.
void AnswersNoCooling(const k8sclient::Request& request, Network::Answer& answer);
bool TellsNoCooling(std::string& line);
// Lists the pods of a node as they were four seconds ago, as a cache may do.
[[nodiscard]] Network::Lies ListsPodsFromCache();
// Removes the nulls from a patch of a Node, so that the patch removes no address count.
void DropsNulls(k8sclient::Request& request);
// Removes the version from a deletion, and holds the deletion back until an entry was written to the block, or for a
// minute.
void DeletesBlindlyOnceUsed(k8sclient::Request& request);

}  // namespace berth::sim
