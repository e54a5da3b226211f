// SPDX-License-Identifier: Apache-2.0
// Suspects: what follows from an entry and the pod of that name.
#include "reconciler/suspects.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

// The pod that an entry names, and the last pod of that name that the watch showed.
struct SuspicionCase {
  const char* name;
  const char* entry_pod;  // "" and "-": unknown
  const char* entry_uid;
  const char* pod_uid;  // of default/web; "": there is none
  const char* pod_hash;
  bool is_terminal;
  const char* vanished;  // a UID that default/web had before; "": none
  std::optional<Cause> want;
};

constexpr char kUid[] = "11111111-2222-3333-4444-555555555555";
constexpr char kOther[] = "99999999-2222-3333-4444-555555555555";
constexpr char kHash[] = "0123456789abcdef0123456789abcdef";
constexpr char kOtherHash[] = "ffffffffffffffffffffffffffffffff";

class SuspicionTest : public testing::TestWithParam<SuspicionCase> {};

TEST_P(SuspicionTest, IsRaisedForPodsThatAreNotKnownToLive) {
  const SuspicionCase& c = GetParam();
  Pods pods;
  const auto put = [&pods](const char* uid, const char* hash, bool is_terminal) {
    pods.Put({.name_space = "default",
              .name = "web",
              .uid = uid,
              .node = "n1",
              .config_hash = hash,
              .grace = seconds(7),
              .is_terminal = is_terminal},
             {});
  };
  if (*c.vanished != '\0') {
    const bool is_hash = !std::string_view(c.vanished).contains('-');
    put(is_hash ? "mirror-uid" : c.vanished, is_hash ? c.vanished : "", /*is_terminal=*/true);
    if (*c.pod_uid == '\0') pods.Remove("default/web", {});
  }
  if (*c.pod_uid != '\0') put(c.pod_uid, c.pod_hash, c.is_terminal);
  ipam::HeldEntry entry;
  if (*c.entry_pod != '\0') entry.pod_namespace = "default";
  entry.pod = c.entry_pod;
  entry.uid = c.entry_uid;
  const auto got = SuspicionOf(entry, pods, {});
  ASSERT_EQ(got.has_value(), c.want.has_value());
  if (!got) return;
  EXPECT_EQ(got->cause, *c.want);
  const bool was_seen = got->cause == Cause::kVanished || got->cause == Cause::kTerminal;
  EXPECT_EQ(got->grace, was_seen ? seconds(7) : seconds(0));
}

constexpr SuspicionCase kSuspicionCases[] = {
    {"Lives", "web", kUid, kUid, "", false, "", std::nullopt},
    {"LivesThoughTheUidIsUnknown", "web", "", kUid, "", false, "", std::nullopt},
    {"IsTerminal", "web", kUid, kUid, "", true, "", Cause::kTerminal},
    {"Vanished", "web", kUid, "", "", false, kUid, Cause::kVanished},
    {"AnotherHasItsName", "web", kUid, kOther, "", false, kUid, Cause::kVanished},
    {"AnotherHasItsNameAndNobodySawItGo", "web", kUid, kOther, "", false, "", Cause::kAbsent},
    {"WasNeverThere", "web", kUid, "", "", false, "", Cause::kAbsent},
    {"NoName", "", "", "", "", false, "", Cause::kUnknown},
    {"ANameThatNoPodCanHave", "..", kUid, "", "", false, "", Cause::kUnknown},
    {"StaticPodLives", "web", kHash, "mirror-uid", kHash, false, "", std::nullopt},
    {"StaticPodWithoutMirror", "web", kHash, "", "", false, "", Cause::kUnknown},
    {"StaticPodWhoseMirrorWasDeleted", "web", kHash, "", "", false, kHash, Cause::kUnknown},
    {"StaticPodWithAnotherConfiguration", "web", kHash, "mirror-uid", kOtherHash, false, kHash, Cause::kVanished},
    {"StaticPodWhoseNameAnOrdinaryPodHas", "web", kHash, kUid, "", false, "", Cause::kUnknown},
};
INSTANTIATE_TEST_SUITE_P(Table, SuspicionTest, testing::ValuesIn(kSuspicionCases),
                         [](const auto& c) { return std::string(c.param.name); });

// A tenant writes another pod's UID into the mirror annotation of its own pod, and deletes its own pod.
TEST(Suspicion, IgnoresTheDeletionOfAnotherPodThatNamesTheUidOfTheEntrysPod) {
  Pods pods;
  pods.Put({.name_space = "default", .name = "web", .uid = kUid, .node = "n1", .grace = seconds(3600)}, {});
  pods.Put({.name_space = "evil", .name = "x", .uid = kOther, .node = "n1", .config_hash = kUid, .grace = seconds(0)},
           {});
  pods.Remove("evil/x", {});
  pods.Remove("default/web", {});
  ipam::HeldEntry entry;
  entry.pod_namespace = "default";
  entry.pod = "web";
  entry.uid = kUid;
  EXPECT_EQ(SuspicionOf(entry, pods, {})->grace, seconds(3600));
}

}  // namespace
}  // namespace berth::reconciler
