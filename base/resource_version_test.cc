// SPDX-License-Identifier: Apache-2.0
// Which texts are resourceVersions.
#include "base/resource_version.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(ResourceVersion, IsANumberOrNothing) {
  EXPECT_EQ(ParseVersion("17"), 17U);
  for (const char* const other : {"", "abc", "17a", "-1", "99999999999999999999"}) EXPECT_EQ(ParseVersion(other), 0U);
}

}  // namespace
}  // namespace berth
