// SPDX-License-Identifier: Apache-2.0
// Attachment: every entry in a block contains one, so its form must never change.
#include "cni/attachment.h"

#include <gtest/gtest.h>

namespace berth::cni {
namespace {

TEST(Attachment, IsTheDocumentedHash) {
  // printf n1 | sha256sum; printf 'c1\0eth0' | sha256sum
  EXPECT_EQ(MakeAttachment("n1", "c1", "eth0"), "676b8bb84ce7-ec43057c07aaa51f");
}

TEST(Attachment, DiffersByNetwork) {
  EXPECT_NE(MakeAttachment("n1", "c1", "eth0"), MakeAttachment("n2", "c1", "eth0"));
}

TEST(Attachment, DiffersByInterface) {
  EXPECT_NE(MakeAttachment("n1", "c1", "eth0"), MakeAttachment("n1", "c1", "eth1"));
}

TEST(Attachment, DoesNotMixContainerAndInterface) {
  EXPECT_NE(MakeAttachment("n1", "c1e", "th0"), MakeAttachment("n1", "c1", "eth0"));
}

TEST(Attachment, BeginsWithTheNetworksDigits) {
  EXPECT_TRUE(MakeAttachment("n1", "c1", "eth0").starts_with(NetworkDigits("n1") + "-"));
}

TEST(Attachment, HasOnlyTheDocumentedForm) {
  EXPECT_TRUE(IsAttachment(MakeAttachment("n1", "c1", "eth0")));
  for (const char* text : {"",
                           "passwd",
                           "676b8bb84ce7-ec43057c07aaa51",
                           "676b8bb84ce7-ec43057c07aaa51ff",
                           "676b8bb84ce7.ec43057c07aaa51f",
                           "676B8BB84CE7-ec43057c07aaa51f",
                           "../../etc/pa-ec43057c07aaa51f"}) {
    EXPECT_FALSE(IsAttachment(text)) << text;
  }
}

}  // namespace
}  // namespace berth::cni
