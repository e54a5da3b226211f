// SPDX-License-Identifier: Apache-2.0
// berth-controller as a process, of which the image has one program with berth-agent (install/pod_main.cc).
#pragma once

namespace berth::reconciler {

// The command line; until SIGTERM or SIGINT. The exit status: 1 also when the lease is lost, 2 after a mistake.
[[nodiscard]] int ControllerMain(int argc, const char* const* argv);

}  // namespace berth::reconciler
