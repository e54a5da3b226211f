// SPDX-License-Identifier: Apache-2.0
// LogLine: writes a line that only the log may contain.
//
// The line may contain secrets, so no error may contain it: an error may become an event of a pod, and the pod's tenant
// can read events.
#pragma once

#include <functional>
#include <string>

namespace berth::k8sclient {

using LogLine = std::function<void(const std::string& line)>;

void LogToStderr(const std::string& line);

}  // namespace berth::k8sclient
