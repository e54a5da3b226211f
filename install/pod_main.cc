// SPDX-License-Identifier: Apache-2.0
// What berth's pods run: berth-agent or, under that name, berth-controller.
//
// One program, because most of either is the same: TLS, JSON, the client of the API server. As two they made the image
// a quarter larger.
#include <filesystem>
#include <string>

#include "agent/agent_run.h"
#include "reconciler/controller_main.h"

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): so the standard declares it
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : std::string();
  return name == "berth-controller" ? berth::reconciler::ControllerMain(argc, argv)
                                    : berth::agent::AgentMain(argc, argv);
}
