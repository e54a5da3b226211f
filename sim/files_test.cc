// SPDX-License-Identifier: Apache-2.0
// Files below /sim by the C library's calls, and what a power cut leaves of them.
#include "sim/files.h"

#include <fcntl.h>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "node/folder.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

using node::FileSync;
using node::Folder;

// Runs `body` in a history with an empty folder. Returns the text.
std::string InFolder(std::uint64_t seed, const std::function<void(const Folder& folder, std::string& text)>& body) {
  return TellOf(seed,
                [&body](std::string& text) {
                  MakeFolders("/sim/n1/state");
                  body(Folder::Open("/sim/n1/state").value(), text);
                })
      .text;
}

std::string ContentOf(const std::string& name) {
  return Folder::Open("/sim/n1/state").value().Read(name).value_or("none");
}

void Append(const Folder& folder, const std::string& line, bool syncs) {
  const auto file = folder.OpenFile("journal", O_WRONLY | O_CREAT | O_APPEND);
  ASSERT_EQ(write(file->descriptor(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  ASSERT_EQ(syncs ? fdatasync(file->descriptor()) : 0, 0);
}

TEST(Files, AreReadAsTheyWereWritten) {
  EXPECT_EQ(InFolder(1,
                     [](const Folder& folder, std::string& text) {
                       ASSERT_TRUE(folder.Write("a", "1").has_value());
                       ASSERT_TRUE(folder.Write("a", "2").has_value());
                       text = ContentOf("a");
                     }),
            "2");
}

TEST(Files, AreListedByName) {
  EXPECT_EQ(InFolder(1,
                     [](const Folder& folder, std::string& text) {
                       for (const char* const name : {"b", "c", "a"}) ASSERT_TRUE(folder.Write(name, "").has_value());
                       ASSERT_TRUE(folder.Remove("c").has_value());
                       for (const std::string& name : folder.Names().value()) text += name;
                     }),
            "ab");
}

TEST(Files, AreGoneAfterTheirFolderWasRemoved) {
  EXPECT_EQ(InFolder(1,
                     [](const Folder& folder, std::string& text) {
                       RemoveTree("/sim/n1");
                       text = folder.IsGone() ? "gone" : "there";
                     }),
            "gone");
}

TEST(Files, AreLockedUntilTheHolderClosesThem) {
  const auto told = InFolder(1, [](const Folder& folder, std::string& text) {
    auto held = folder.OpenFile("lock", O_RDWR | O_CREAT);
    ASSERT_EQ(flock(held->descriptor(), LOCK_EX), 0);
    const auto other = folder.OpenFile("lock", O_RDWR);
    EXPECT_EQ(flock(other->descriptor(), LOCK_SH | LOCK_NB), -1);
    std::jthread waits([&] {
      EXPECT_EQ(flock(other->descriptor(), LOCK_SH), 0);
      text += "taken";
    });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    text += "closed ";
    held->Close();
    waits.join();
  });
  EXPECT_EQ(told, "closed taken");
}

TEST(Files, AllowSeveralSharedLocks) {
  InFolder(1, [](const Folder& folder, std::string& /*text*/) {
    const auto one = folder.OpenFile("lock", O_RDWR | O_CREAT);
    const auto other = folder.OpenFile("lock", O_RDWR | O_CREAT);
    EXPECT_EQ(flock(one->descriptor(), LOCK_SH | LOCK_NB), 0);
    EXPECT_EQ(flock(other->descriptor(), LOCK_SH | LOCK_NB), 0);
    EXPECT_EQ(flock(one->descriptor(), LOCK_EX | LOCK_NB), -1) << "and this one has lost its lock";
    EXPECT_EQ(flock(other->descriptor(), LOCK_EX | LOCK_NB), 0);
  });
}

// The contents of a file that power cuts leave, with many seeds.
std::set<std::string> Left(const std::function<void(const Folder& folder)>& body, const std::string& name) {
  std::set<std::string> left;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    left.insert(InFolder(seed, [&](const Folder& folder, std::string& text) {
      body(folder);
      CutPower("/sim/n1/state");
      text = ContentOf(name);
    }));
  }
  return left;
}

using Strings = std::set<std::string>;

TEST(PowerCut, LeavesWhatWasSynced) {
  EXPECT_EQ(Left([](const Folder& folder) { ASSERT_TRUE(folder.Write("a", "12", FileSync::kYes).has_value()); }, "a"),
            Strings{"12"});
}

TEST(PowerCut, MayDestroyANameThatWasNotSyncedOrItsContent) {
  EXPECT_EQ(Left([](const Folder& folder) { ASSERT_TRUE(folder.Write("a", "12").has_value()); }, "a"),
            (Strings{"none", "", "1", "12"}));
}

TEST(PowerCut, MayCutOffPartOfALineThatWasNotSynced) {
  const auto left = Left(
      [](const Folder& folder) {
        ASSERT_TRUE(folder.Write("journal", "", FileSync::kYes).has_value());
        Append(folder, "+1", /*syncs=*/true);
        Append(folder, "-1", /*syncs=*/false);
      },
      "journal");
  EXPECT_EQ(left, (Strings{"+1", "+1-", "+1-1"}));
}

TEST(PowerCut, KeepsTheOrderOfChangesOfNames) {
  const auto left = Left(
      [](const Folder& folder) {
        ASSERT_TRUE(folder.Write("a", "1", FileSync::kYes).has_value());
        ASSERT_TRUE(folder.Remove("a").has_value());
        ASSERT_TRUE(folder.Write("a", "2", FileSync::kNo).has_value());
      },
      "a");
  EXPECT_TRUE(left.contains("1"));
  EXPECT_TRUE(left.contains("none"));
  EXPECT_TRUE(left.contains("2"));
}

}  // namespace
}  // namespace berth::sim
