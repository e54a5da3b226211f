// SPDX-License-Identifier: Apache-2.0
// Lies that plants tell about what the counting of addresses goes by (plants.h).
#pragma once

#include <string>

#include "k8sclient/api.h"
#include "sim/network.h"

namespace berth::sim {

// Addresses that rest are shown as free, in answers and in the lines of watches.
void AnswersNoCooling(const k8sclient::Request& request, Network::Answer& answer);
bool TellsNoCooling(std::string& line);
// The pods of a node are listed as they were four seconds ago, as a cache may have them.
[[nodiscard]] Network::Lies ListsPodsFromCache();
// A patch that takes numbers of a Node away leaves them.
void DropsNulls(k8sclient::Request& request);
// A deletion names no version, and arrives when an entry was written to the block, or after a minute.
void DeletesBlindlyOnceUsed(k8sclient::Request& request);

}  // namespace berth::sim
