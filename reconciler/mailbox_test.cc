// SPDX-License-Identifier: Apache-2.0
// Mailbox: what arrives is what was last said, in whatever order it was said.
#include "reconciler/mailbox.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reconciler/test_world.h"

namespace berth::reconciler {
namespace {

SeenReservation Named(const std::string& name) { return {.name = name, .space = "default"}; }

std::vector<std::string> Names(const World& world) {
  std::vector<std::string> names;
  for (const auto& [name, reservation] : world.reservations) names.push_back(name);
  return names;
}

TEST(Mailbox, AReplacementTakesAwayWhatItDoesNotHold) {
  Mailbox mailbox;
  World world;
  mailbox.Put("a", Named("a"));
  mailbox.FetchInto(world);
  mailbox.Replace(std::map<std::string, SeenReservation>{{"b", Named("b")}});
  mailbox.FetchInto(world);
  EXPECT_EQ(Names(world), std::vector<std::string>{"b"});
}

TEST(Mailbox, WhatComesAfterAReplacementAddsToIt) {
  Mailbox mailbox;
  World world;
  mailbox.Put("lost", Named("lost"));
  mailbox.Replace(std::map<std::string, SeenReservation>{{"a", Named("a")}, {"b", Named("b")}});
  mailbox.Remove<SeenReservation>("a");
  mailbox.Put("c", Named("c"));
  mailbox.FetchInto(world);
  EXPECT_EQ(Names(world), (std::vector<std::string>{"b", "c"}));
}

TEST(Mailbox, TheLastWordCounts) {
  Mailbox mailbox;
  World world;
  mailbox.Put("a", Named("a"));
  mailbox.Remove<SeenReservation>("a");
  mailbox.FetchInto(world);
  EXPECT_TRUE(world.reservations.empty());
  mailbox.Remove<SeenReservation>("a");
  mailbox.Put("a", Named("a"));
  mailbox.FetchInto(world);
  EXPECT_EQ(Names(world), std::vector<std::string>{"a"});
}

TEST(Mailbox, IsLoadedWhenEveryKindWasListedEvenIfThereIsNothing) {
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<std::string, SeenReservation>());
  mailbox.Replace(std::map<std::string, SeenPool>());
  mailbox.Replace(std::map<std::string, crds::Space>());
  mailbox.FetchInto(world);
  EXPECT_FALSE(mailbox.IsLoaded());
  mailbox.Replace(std::map<std::string, SeenBlock>());
  EXPECT_TRUE(mailbox.IsLoaded());
  mailbox.FetchInto(world);
  EXPECT_TRUE(mailbox.IsLoaded()) << "fetching must not forget it";
}

TEST(Mailbox, TheBlockSetChangesOnlyWithItsMembers) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {});
  const SeenBlock block = t.world.blocks().at("10.55.0.0-26");
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<std::string, SeenBlock>{{block.name, block}});
  mailbox.FetchInto(world);
  const std::uint64_t version = world.block_set_version();
  mailbox.Put(block.name, block);
  mailbox.FetchInto(world);
  EXPECT_EQ(world.block_set_version(), version);
  mailbox.Replace(std::map<std::string, SeenBlock>{{block.name, block}});
  mailbox.FetchInto(world);
  EXPECT_EQ(world.block_set_version(), version);
  mailbox.Replace(std::map<std::string, SeenBlock>());
  mailbox.FetchInto(world);
  EXPECT_GT(world.block_set_version(), version);
  EXPECT_TRUE(world.blocks().empty());
}

TEST(Mailbox, ABlockMadeAgainUnderItsNameChangesTheSet) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {});
  const std::uint64_t version = t.world.block_set_version();
  SeenBlock other = t.world.blocks().at("10.55.0.0-26");
  other.uid = "another";
  t.world.PutBlock(other);
  EXPECT_GT(t.world.block_set_version(), version);
}

TEST(Mailbox, WakesTheOneThatWaits) {
  Mailbox mailbox;
  const std::jthread sender([&] { mailbox.Put("a", Named("a")); });
  EXPECT_TRUE(mailbox.WaitUntil(std::chrono::steady_clock::now() + std::chrono::minutes(1), {}));
  World world;
  mailbox.FetchInto(world);
  EXPECT_EQ(Names(world), std::vector<std::string>{"a"});
}

TEST(Mailbox, StopsWaitingWhenAskedTo) {
  Mailbox mailbox;
  std::stop_source stop;
  const std::jthread other([&] { stop.request_stop(); });
  EXPECT_FALSE(mailbox.WaitUntil(std::chrono::steady_clock::now() + std::chrono::minutes(1), stop.get_token()));
}

TEST(Mailbox, ReturnsAtTheDeadline) {
  Mailbox mailbox;
  EXPECT_TRUE(mailbox.WaitUntil(std::chrono::steady_clock::now(), {}));
}

}  // namespace
}  // namespace berth::reconciler
