// SPDX-License-Identifier: Apache-2.0
// URLs of servers and proxies, and which proxy is used.
#include "k8sclient/url.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace berth::k8sclient {
namespace {

struct UrlCase {
  const char* name;
  const char* text;
  const char* authority;  // "": must be refused
  const char* path;
};
class UrlTable : public ::testing::TestWithParam<UrlCase> {};

TEST_P(UrlTable, IsTakenApartOrRefused) {
  const UrlCase& c = GetParam();
  const auto url = ParseServerUrl(c.text);
  if (*c.authority == '\0') {
    ASSERT_FALSE(url.has_value()) << url->Authority();
    EXPECT_EQ(url.error().code, ErrorCode::kDecode);
    return;
  }
  ASSERT_TRUE(url.has_value()) << url.error().message;
  EXPECT_EQ(url->Authority(), c.authority);
  EXPECT_EQ(url->path, c.path);
}

constexpr UrlCase kUrlCases[] = {
    {"AddressAndPort", "https://10.0.0.1:6443", "10.0.0.1:6443", ""},
    {"NameWithoutPort", "https://api.example.org", "api.example.org:443", ""},
    {"Http", "http://127.0.0.1/", "127.0.0.1:80", ""},
    {"UpperCaseScheme", "HTTPS://a", "a:443", ""},
    {"Socks", "socks5://proxy", "proxy:1080", ""},
    {"Ipv6", "https://[2001:db8::1]:6443", "[2001:db8::1]:6443", ""},
    {"Ipv6WithoutPort", "https://[::1]", "[::1]:443", ""},
    {"Path", "https://rancher.example.org/k8s/clusters/c-1/", "rancher.example.org:443", "/k8s/clusters/c-1"},
    {"User", "http://u:p@proxy:3128", "proxy:3128", ""},
    {"NoScheme", "10.0.0.1:6443", "", ""},
    {"UnknownScheme", "ftp://a", "", ""},
    {"NoHost", "https://", "", ""},
    {"NoHostButPort", "https://:6443", "", ""},
    {"PortZero", "https://a:0", "", ""},
    {"PortTooLarge", "https://a:65536", "", ""},
    {"PortNoNumber", "https://a:https", "", ""},
    {"OpenBracket", "https://[::1", "", ""},
    {"TextBehindBracket", "https://[::1]x", "", ""},
    {"Blank", "https://a b", "", ""},
    {"Query", "https://a/b?c", "", ""},
    {"LineBreak", "https://a/b\r\nX: y", "", ""},
};
INSTANTIATE_TEST_SUITE_P(Table, UrlTable, ::testing::ValuesIn(kUrlCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Url, UserAndPasswordAreDecoded) {
  const auto url = ParseServerUrl("socks5://us%40er:p%3Aw@proxy");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->user, "us@er");
  EXPECT_EQ(url->password, "p:w");
}

TEST(Url, QueriesAreEncoded) {
  EXPECT_EQ(RequestTarget("/a", {{"fieldSelector", "spec.node=n 1&x"}, {"limit", "5"}}),
            "/a?fieldSelector=spec.node%3Dn%201%26x&limit=5");
  EXPECT_EQ(RequestTarget("/a", {}), "/a");
}

struct ProxyCase {
  const char* name;
  const char* server;
  std::map<std::string, std::string> environment;
  const char* want;  // the proxy's authority; "": none
};
class ProxyTable : public ::testing::TestWithParam<ProxyCase> {};

TEST_P(ProxyTable, FollowsGosRules) {
  const ProxyCase& c = GetParam();
  const auto proxy = ChooseProxy("", *ParseServerUrl(c.server), [&c](const std::string& name) {
    const auto it = c.environment.find(name);
    return it == c.environment.end() ? std::string() : it->second;
  });
  ASSERT_TRUE(proxy.has_value()) << proxy.error().message;
  EXPECT_EQ(*proxy ? (*proxy)->Authority() : "", c.want);
}

const std::string kProxy = "http://proxy:3128";
const ProxyCase kProxyCases[] = {
    {"NoEnvironment", "https://a", {}, ""},
    {"Https", "https://a", {{"HTTPS_PROXY", kProxy}}, "proxy:3128"},
    {"LowerCase", "https://a", {{"https_proxy", kProxy}}, "proxy:3128"},
    {"WithoutScheme", "https://a", {{"HTTPS_PROXY", "proxy:3128"}}, "proxy:3128"},
    {"HttpOnlyForHttp", "https://a", {{"HTTP_PROXY", kProxy}}, ""},
    {"Http", "http://a", {{"HTTP_PROXY", kProxy}}, "proxy:3128"},
    {"NeverForThisMachine", "https://127.0.0.1:6443", {{"HTTPS_PROXY", kProxy}}, ""},
    {"NeverForLocalhost", "https://localhost:6443", {{"HTTPS_PROXY", kProxy}}, ""},
    {"NeverForLoopback6", "https://[::1]:6443", {{"HTTPS_PROXY", kProxy}}, ""},
    {"ExceptAll", "https://a", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "*"}}, ""},
    {"ExceptName", "https://A.example.org", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "x, a.example.org"}}, ""},
    {"ExceptDomain", "https://a.example.org", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "example.org"}}, ""},
    {"ExceptBelowDomain", "https://a.example.org", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", ".example.org"}}, ""},
    {"DotMeansBelow", "https://example.org", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", ".example.org"}}, "proxy:3128"},
    {"StarDot", "https://a.example.org", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "*.example.org"}}, ""},
    {"NotAnEnding", "https://notexample.org", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "example.org"}}, "proxy:3128"},
    {"ExceptAddress", "https://10.0.0.1:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "10.0.0.1"}}, ""},
    {"ExceptCidr", "https://10.1.2.3:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "10.0.0.0/8"}}, ""},
    {"ExceptCidrWithHostBits", "https://10.1.2.3:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "10.9.9.9/8"}}, ""},
    {"OutsideCidr", "https://11.1.2.3:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "10.0.0.0/8"}}, "proxy:3128"},
    {"ExceptCidr6", "https://[2001:db8::7]:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "2001:db8::/32"}}, ""},
    {"ExceptAddress6", "https://[2001:db8::7]:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "2001:db8::7"}}, ""},
    {"ExceptPort", "https://a:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "a:6443"}}, ""},
    {"OtherPort", "https://a:6443", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", "a:443"}}, "proxy:3128"},
    {"EmptyItems", "https://a", {{"HTTPS_PROXY", kProxy}, {"NO_PROXY", ",, ,"}}, "proxy:3128"},
};
INSTANTIATE_TEST_SUITE_P(Table, ProxyTable, ::testing::ValuesIn(kProxyCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Proxy, TheKubeconfigsWinsAndIsUsedForThisMachineToo) {
  const auto proxy = ChooseProxy("socks5://p:9", *ParseServerUrl("https://127.0.0.1"), [](const std::string&) {
    return std::string("http://other:1");
  });
  ASSERT_TRUE(proxy.has_value());
  ASSERT_TRUE(proxy->has_value());
  EXPECT_EQ((*proxy)->Authority(), "p:9");
}

TEST(Proxy, AMalformedProxyIsAnErrorThatNamesItsVariableAndNotItsPassword) {
  const auto proxy = ChooseProxy("", *ParseServerUrl("https://a"), [](const std::string& name) {
    return name == "HTTPS_PROXY" ? std::string("http://u:secret@:x") : std::string();
  });
  ASSERT_FALSE(proxy.has_value());
  EXPECT_EQ(proxy.error().code, ErrorCode::kDecode);
  EXPECT_NE(proxy.error().message.find("HTTPS_PROXY"), std::string::npos);
  EXPECT_EQ(proxy.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace berth::k8sclient
