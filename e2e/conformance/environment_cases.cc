// SPDX-License-Identifier: Apache-2.0
// Cases 1 to 22: environment variables and the verb.
#include <unistd.h>

#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

using testing::HasSubstr;

TEST_F(Conformance, Case001_WithoutCommandItNamesItselfAndTheVersionsOnStderr) {
  const PluginOutcome outcome = Run(Call{}.Input(""));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("berth"));
  EXPECT_THAT(outcome.err, HasSubstr("0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"));
}

TEST_F(Conformance, Case002_AnEmptyCommandIsNoCommand) {
  const PluginOutcome outcome = Run(Call{}.With("CNI_COMMAND", "").Input(""));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("1.1.0"));
}

TEST_F(Conformance, Case003_AnUnknownVerbIsNamed) { Error(Base("NOPE"), {4}, "NOPE"); }

TEST_F(Conformance, Case004_VerbsAreUpperCase) { Error(Base("add"), {4}, "add"); }

TEST_F(Conformance, Case005_AddNeedsAContainerId) {
  Error(Base("ADD").Without("CNI_CONTAINERID"), {4}, "required env variables [CNI_CONTAINERID] missing");
}

TEST_F(Conformance, Case006_AddNeedsANetns) {
  Error(Base("ADD").Without("CNI_NETNS"), {4}, "required env variables [CNI_NETNS] missing");
}

TEST_F(Conformance, Case007_AddNeedsAnIfname) {
  Error(Base("ADD").Without("CNI_IFNAME"), {4}, "required env variables [CNI_IFNAME] missing");
}

TEST_F(Conformance, Case008_AddNeedsAPath) {
  Error(Base("ADD").Without("CNI_PATH"), {4}, "required env variables [CNI_PATH] missing");
}

TEST_F(Conformance, Case009_AllMissingVariablesAreListedInOneErrorInOrder) {
  Error(Base("ADD").Without("CNI_PATH").Without("CNI_IFNAME").Without("CNI_NETNS"),
        {4},
        "required env variables [CNI_NETNS,CNI_IFNAME,CNI_PATH] missing");
}

TEST_F(Conformance, Case010_AnEmptyContainerIdIsAMissingOne) {
  Error(Base("ADD").With("CNI_CONTAINERID", ""), {4}, "required env variables [CNI_CONTAINERID] missing");
}

TEST_F(Conformance, Case011_MalformedContainerIdsAreRefusedAndQuotedInDetails) {
  for (const char* id : {"a%b", "a/b", "a b", "-a", "_a", ".a", "\xC3\xA9", "a\n"}) {
    const json error = ExpectError(Run(Base("ADD").With("CNI_CONTAINERID", id)), {4}, "");
    EXPECT_EQ(error.value("details", ""), id);
  }
  EXPECT_THAT(Allocated(), testing::IsEmpty());
}

TEST_F(Conformance, Case012_WellFormedContainerIdsOfAnyLengthAreTaken) {
  for (const std::string& id : {std::string("A0_.-"), std::string("x"), std::string(300, 'x')}) {
    EXPECT_EQ(Addresses(Ok(Base("ADD").With("CNI_CONTAINERID", id))).size(), 1U);
  }
  EXPECT_EQ(Allocated().size(), 3U);
}

TEST_F(Conformance, Case013_AnIfnameHasAtMost15Bytes) {
  Error(Base("ADD").With("CNI_IFNAME", "1234567890123456"), {4}, "too long");
  Ok(Base("ADD").With("CNI_IFNAME", "123456789012345"));
}

TEST_F(Conformance, Case014_AnIfnameIsNotADotOrTwo) {
  Error(Base("ADD").With("CNI_IFNAME", "."), {4}, "CNI_IFNAME");
  Error(Base("ADD").With("CNI_IFNAME", ".."), {4}, "CNI_IFNAME");
}

TEST_F(Conformance, Case015_AnIfnameHasNoSlashColonOrWhiteSpace) {
  for (const char* name : {"a/b", "a:b", "a b", "a\tb", "a\xC2\xA0"}) {
    ExpectError(Run(Base("ADD").With("CNI_IFNAME", name)), {4}, "CNI_IFNAME");
  }
  EXPECT_THAT(Allocated(), testing::IsEmpty());
}

TEST_F(Conformance, Case016_OtherBytesMayStandInAnIfname) {
  for (const char* name : {"\xD0\xB0\xD0\xB1\xD0\xB2", "%s", "-", "@"}) {
    EXPECT_EQ(Addresses(Ok(Base("ADD").With("CNI_IFNAME", name))).size(), 1U) << name;
  }
}

TEST_F(Conformance, Case017_BadContainerIdWinsOverMissingIfname) {
  const json error = Error(Base("ADD").With("CNI_CONTAINERID", "a%b").Without("CNI_IFNAME"), {4}, "CNI_CONTAINERID");
  EXPECT_THAT(error.dump(), testing::Not(HasSubstr("CNI_IFNAME")));
}

TEST_F(Conformance, Case018_AddDoesWithoutCniArgs) { Ok(Base("ADD").Without("CNI_ARGS")); }

TEST_F(Conformance, Case019_GcNeedsNothingButAPath) {
  const Call gc = Base("GC").Config({{"cni.dev/valid-attachments", json::array()}});
  Call empty = gc;
  Call unset = gc;
  for (const char* name : {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"}) {
    empty = empty.With(name, "");
    unset = unset.Without(name);
  }
  OkSilently(empty);
  OkSilently(unset);
  Error(gc.Without("CNI_PATH"), {4}, "CNI_PATH");
}

TEST_F(Conformance, Case020_StatusNeedsNothingButAPath) {
  Call empty = Base("STATUS");
  Call unset = Base("STATUS");
  for (const char* name : {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"}) {
    empty = empty.With(name, "");
    unset = unset.Without(name);
  }
  OkSilently(empty);
  OkSilently(unset);
  Error(Base("STATUS").Without("CNI_PATH"), {4}, "CNI_PATH");
}

TEST_F(Conformance, Case021_ThePluginsOwnNetnsIsRefusedUnlessOverridden) {
  const Call own = Base("ADD").With("CNI_NETNS", "/proc/" + std::to_string(::getpid()) + "/ns/net");
  Error(own, {8}, "CNI_NETNS");
  Ok(own.With("CNI_NETNS_OVERRIDE", "1"));
  Ok(own.With("CNI_NETNS_OVERRIDE", "TRUE").With("CNI_CONTAINERID", "c2"));
}

TEST_F(Conformance, Case022_UnknownVariablesAreIgnored) {
  Ok(Base("ADD")
         .With("CNI_FUTURE", "x")
         .With("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
         .With("CNI_VERSION", "0.1.0"));
}

}  // namespace
}  // namespace berth::conformance
