// SPDX-License-Identifier: Apache-2.0
// The program of berth's pods: it runs as berth-controller if its name is berth-controller, and otherwise as
// berth-agent.
//
// Both are in one program, because most of their code is the same: TLS, JSON, and the client of the API server. Two
// programs made the image a quarter larger.
#include <filesystem>
#include <string>

#include "agent/agent_run.h"
#include "reconciler/controller_main.h"

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): so the standard declares it
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : std::string();
  return name == "berth-controller" ? berth::reconciler::ControllerMain(argc, argv)
                                    : berth::agent::AgentMain(argc, argv);
}
