// SPDX-License-Identifier: Apache-2.0
// ParseResolvConf: typical files of hosts.
#include "cni/resolv_conf.h"

#include <gtest/gtest.h>

namespace berth::cni {
namespace {

TEST(ResolvConf, ReadsEveryKeyword) {
  const ipam::Dns want{.nameservers = {"10.0.0.10", "2001:db8::53"},
                       .domain = "example.org",
                       .search = {"a.example.org", "b.example.org", "c.example.org"},
                       .options = {"ndots:5", "edns0"}};
  EXPECT_EQ(ParseResolvConf("# comment\nnameserver 10.0.0.10\n; another\ndomain old.example.org\n"
                            "\tnameserver\t2001:db8::53  \nsearch a.example.org b.example.org\r\n"
                            "search c.example.org\noptions ndots:5 edns0\ndomain example.org"),
            want);
}

TEST(ResolvConf, SkipsWhatItDoesNotKnow) {
  EXPECT_TRUE(ParseResolvConf("").empty());
  EXPECT_TRUE(ParseResolvConf("\n\n  \nnameserver\nsortlist 10.0.0.0\nnameserverx 1\n#nameserver 10.0.0.1\n").empty());
}

}  // namespace
}  // namespace berth::cni
