// SPDX-License-Identifier: Apache-2.0
// berth-controller as a process. One program of the image contains berth-controller and berth-agent
// (install/pod_main.cc).
#pragma once

namespace berth::reconciler {

// Runs until SIGTERM or SIGINT. Returns the exit status: 1 after an error, such as a lost Lease; 2 after a mistake in
// `argv`.
[[nodiscard]] int ControllerMain(int argc, const char* const* argv);

}  // namespace berth::reconciler
