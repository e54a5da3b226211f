// SPDX-License-Identifier: Apache-2.0
// Cases 41 to 45: VERSION.
#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

class VersionVerb : public Conformance {
 protected:
  // A call without other variables, like the probe of some runtimes.
  static Call Bare() { return Call{}.With("CNI_COMMAND", "VERSION").Input(""); }

  // VERSION answers with the newest version and ignores stdin, like the reference skeleton.
  void ExpectTheList(const Call& call) {
    const json want = {{"cniVersion", "1.1.0"},
                       {"supportedVersions", {"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}}};
    EXPECT_EQ(Ok(call), want);
  }
};

TEST_F(VersionVerb, Case041_ItAnswersWithoutInputAndEnvironment) { ExpectTheList(Bare()); }

TEST_F(VersionVerb, Case042_TheConfigurationsVersionChangesNothing) {
  ExpectTheList(Bare().Input(R"({"cniVersion":"0.4.0"})"));
}

TEST_F(VersionVerb, Case043_InputThatNeverEndsDoesNotBlockIt) {
  Call call = Bare();
  call.in = cni_testing::Stdin::kNeverEnds;
  ExpectTheList(call);
  EXPECT_LT(Run(call).took, std::chrono::seconds(5));
}

TEST_F(VersionVerb, Case044_GarbageOnInputChangesNothing) {
  ExpectTheList(Bare().Input(R"({"name":"a%b"})"));
  ExpectTheList(Bare().Input("\x01\x02 garbage"));
}

TEST_F(VersionVerb, Case045_TheProbeOfLibcniIsAnswered) {
  ExpectTheList(Bare()
                    .With("CNI_NETNS", "dummy")
                    .With("CNI_IFNAME", "dummy")
                    .With("CNI_PATH", "dummy")
                    .Input(R"({"cniVersion":"1.1.0"})"));
}

}  // namespace
}  // namespace berth::conformance
