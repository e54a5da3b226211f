// SPDX-License-Identifier: Apache-2.0
// LogLine: where goes what is for the log alone.
//
// It may hold secrets, so it stands in no error: an error may end as an event of a pod, which the pod's tenant reads.
#pragma once

#include <functional>
#include <string>

namespace berth::k8sclient {

using LogLine = std::function<void(const std::string& line)>;

void LogToStderr(const std::string& line);

}  // namespace berth::k8sclient
