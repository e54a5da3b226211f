// SPDX-License-Identifier: Apache-2.0
// Logging: texts that other programs wrote stay inside their field and their line.
#include "reconciler/logging.h"

#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

// Whoever has a node's token can write any text into the node's entries.
TEST(Logging, AnEntryCannotForgeAFieldOrALine) {
  std::ostringstream out;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out)));
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {{3, "~ t=1"}});
  const ipam::Block& block = *t.world.blocks().at("10.55.0.0-26").block;
  const std::string forged = "x\" proof=time\n2027-01-15T08:00:00.000Z info forged";
  ipam::HeldEntry entry;
  entry.pod_namespace = "default";
  entry.pod = entry.uid = entry.attachment = forged;
  LogFreed(block, {.offset = 3, .text = {}, .entry = entry, .node = forged});
  const std::string forged_line = out.str();
  out.str("");
  entry.pod = "web-0.a";
  entry.uid = "11111111-2222";
  entry.attachment = "0123-4567";
  LogFreed(block, {.offset = 3, .text = {}, .entry = entry, .node = "n1"});
  spdlog::set_default_logger(before);
  EXPECT_EQ(forged_line.find('\n'), forged_line.size() - 1) << forged_line;
  const std::string quoted = R"("x\" proof=time\x0a2027-01-15T08:00:00.000Z info forged")";
  EXPECT_NE(forged_line.find(" uid=" + quoted + " attachment=" + quoted + " node=" + quoted + " why="),
            std::string::npos)
      << forged_line;
  EXPECT_NE(out.str().find(" pod=default/web-0.a uid=11111111-2222 attachment=0123-4567 node=n1 why=pod-gone"),
            std::string::npos)
      << out.str();
}

TEST(Logging, AMessageIsOneLine) {
  const auto before = spdlog::default_logger();
  for (const bool as_json : {false, true}) {
    testing::internal::CaptureStderr();
    SetUpLogging("info", as_json);
    spdlog::info("a\n2027-01-15T08:00:00.000Z info forged\x1b[0m é");
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    EXPECT_NE(line.find("é"), std::string::npos) << line;
  }
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace berth::reconciler
