// SPDX-License-Identifier: Apache-2.0
// Kubeconfig: which file each field comes from, and the text of each refusal.
#include "k8sclient/kubeconfig.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace berth::k8sclient {
namespace {

using FileMap = std::map<std::string, std::string>;

ReadFile Reading(const FileMap& files) {
  return [files](const std::string& path) -> Expected<std::string> {
    const auto it = files.find(path);
    if (it == files.end()) return Fail(ErrorCode::kIo, "read \"" + path + "\": No such file or directory");
    return it->second;
  };
}

// A kubeconfig with one cluster, user and context. `cluster` and `user` are lines that begin with four blanks.
std::string File(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "clusters:\n- name: k\n  cluster:\n" +
         cluster + "users:\n- name: u\n  user:\n" + user +
         "contexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n";
}

const std::string kServer = "    server: https://10.0.0.1:6443\n";

Expected<ClientConfig> Load(const std::string& text) {
  return LoadKubeconfig({"/etc/kube/config"}, "", Reading({{"/etc/kube/config", text}}));
}

TEST(Kubeconfig, TakesServerAndUser) {
  const auto config = Load(File(kServer, "    token: t\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->user_entry, "u");
  EXPECT_EQ(config->token.text, "t");
  EXPECT_NE(config->source.find("/etc/kube/config"), std::string::npos);
}

TEST(Kubeconfig, ReadsJsonToo) {
  const auto config = Load(
      R"({"kind":"Config","current-context":"c","clusters":[{"name":"k","cluster":{"server":"https://a"}}],
          "users":[{"name":"u","user":{"token":"t"}}],"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}]})");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->token.text, "t");
}

// 96 bytes, 128 digits.
std::string LongBase64(char digit) { return std::string(128, digit); }

TEST(Kubeconfig, TakesLongDataAsItStandsThere) {
  const auto config = Load(
      File(kServer + "    certificate-authority-data: " + LongBase64('A') + "\n",
           "    client-certificate-data: " + LongBase64('/') + "\r\n    client-key-data: " + LongBase64('Z') + "\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->certificate_authority.text, std::string(96, '\0'));
  EXPECT_EQ(config->client_certificate.text, std::string(96, '\xff'));
  EXPECT_EQ(config->client_key.text.size(), 96U);
}

TEST(Kubeconfig, LeavesATextOfManyLinesAlone) {
  const std::string line = "client-key-data: " + LongBase64('A');
  const auto config = Load(File(kServer, "    token: |-\n      " + line + "\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->token.text, line);
}

TEST(Kubeconfig, LeavesAQuotedTextAloneThatContainsAKey) {
  const std::string line = "a client-key-data: " + LongBase64('A');
  const auto config = Load(File(kServer, "    token: \"" + line + "\n      b\"\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->token.text, line + " b");
}

TEST(Kubeconfig, RefusesLongDataThatIsNotBase64) {
  const auto config = Load(File(kServer + "    certificate-authority-data: " + LongBase64('A') + "=A\n", "    {}\n"));
  ASSERT_FALSE(config.has_value());
  EXPECT_NE(config.error().message.find("certificate-authority-data: not base64"), std::string::npos);
}

TEST(Kubeconfig, ATrailingSlashOfTheServerGoes) {
  EXPECT_EQ(Load(File("    server: https://a/k8s/\n", "    {}\n"))->server, "https://a/k8s");
}

TEST(Kubeconfig, RelativePathsStartAtTheFilesFolder) {
  const auto config = Load(File(kServer + "    certificate-authority: pki/ca.crt\n",
                                "    client-certificate: ../c.crt\n    client-key: /abs/c.key\n    tokenFile: t\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->certificate_authority.path, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(config->client_certificate.path, "/etc/kube/../c.crt");
  EXPECT_EQ(config->client_key.path, "/abs/c.key");
  EXPECT_EQ(config->token.path, "/etc/kube/t");
}

TEST(Kubeconfig, DataWinsOverThePath) {
  const auto config = Load(File(kServer + "    certificate-authority: x\n    certificate-authority-data: aGVsbG8=\n",
                                "    client-certificate: x\n    client-certificate-data: Yg==\n"
                                "    client-key: x\n    client-key-data: |\n      Yw=\n      =\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->certificate_authority.text, "hello");
  EXPECT_EQ(config->client_certificate.text, "b");
  EXPECT_EQ(config->client_key.text, "c");
}

TEST(Kubeconfig, TokenFileWinsOverToken) {
  const auto config = Load(File(kServer, "    token: old\n    tokenFile: /run/token\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->token.path, "/run/token");
  EXPECT_EQ(config->token.text, "");
}

TEST(Kubeconfig, TakesTlsNameProxyAndSkipVerify) {
  const auto config =
      Load(File(kServer + "    tls-server-name: api\n    proxy-url: socks5://p:1\n    insecure-skip-tls-verify: true\n",
                "    {}\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->tls_server_name, "api");
  EXPECT_EQ(config->proxy_url, "socks5://p:1");
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

TEST(Kubeconfig, TakesImpersonation) {
  const auto config = Load(File(kServer,
                                "    token: t\n    as: jane\n    as-uid: \"7\"\n    as-groups: [a, b]\n"
                                "    as-user-extra:\n      scopes: [x, y]\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->impersonate_user, "jane");
  EXPECT_EQ(config->impersonate_uid, "7");
  EXPECT_EQ(config->impersonate_groups, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config->impersonate_extra.at("scopes"), (std::vector<std::string>{"x", "y"}));
}

TEST(Kubeconfig, TakesAnExecPlugin) {
  const auto config =
      Load(File(kServer,
                "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: ./plugin\n"
                "      args: [token, -i]\n      env:\n      - {name: A, value: b}\n"
                "      interactiveMode: Never\n      provideClusterInfo: true\n      installHint: get it\n"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_TRUE(config->exec.has_value());
  EXPECT_EQ(config->exec->command, "/etc/kube/./plugin");
  EXPECT_EQ(config->exec->args, (std::vector<std::string>{"token", "-i"}));
  EXPECT_EQ(config->exec->environment.at("A"), "b");
  EXPECT_TRUE(config->exec->provide_cluster_info);
}

TEST(Kubeconfig, ABareCommandIsLeftToPath) {
  const auto config = Load(
      File(kServer, "    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws-iam-authenticator}\n"));
  EXPECT_EQ(config->exec->command, "aws-iam-authenticator");
}

TEST(Kubeconfig, TheContextThatIsAskedForWinsOverTheCurrentOne) {
  const std::string text = File(kServer, "    {}\n") + "- name: d\n  context:\n    cluster: k\n";
  const auto config = LoadKubeconfig({"/f"}, "d", Reading({{"/f", text}}));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->user_entry, "");
}

TEST(Kubeconfig, AMissingContextThatIsAskedForIsNotBlamedOnTheFile) {
  const auto config = LoadKubeconfig({"/f"}, "typo", Reading({{"/f", File(kServer, "    {}\n")}}));
  ASSERT_FALSE(config.has_value());
  EXPECT_NE(config.error().message.find("--context names the context \"typo\""), std::string::npos)
      << config.error().message;
}

TEST(Kubeconfig, OfSeveralFilesTheFirstThatNamesAnEntryWins) {
  const FileMap files = {
      {"/a/1",
       "current-context: c\nclusters:\n- name: k\n  cluster: {server: https://one, certificate-authority: ca}\n"},
      {"/b/2", File("    server: https://two\n", "    tokenFile: tok\n")}};
  const auto config = LoadKubeconfig({"/a/1", "/missing", "/b/2"}, "", Reading(files));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->server, "https://one");
  EXPECT_EQ(config->certificate_authority.path, "/a/ca");
  EXPECT_EQ(config->token.path, "/b/tok");
}

TEST(Kubeconfig, TheListInTheEnvironmentIsSplitAtColons) {
  EXPECT_EQ(SplitKubeconfigList("/a::/b:/a"), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_TRUE(SplitKubeconfigList("").empty());
}

struct KubeconfigRefusalCase {
  const char* name;
  std::string text;
  const char* want_message;  // parts that must occur
  const char* want_remedy;
};
class KubeconfigRefusal : public ::testing::TestWithParam<KubeconfigRefusalCase> {};

TEST_P(KubeconfigRefusal, NamesFileFieldAndRemedy) {
  const KubeconfigRefusalCase& c = GetParam();
  const auto config = Load(c.text);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kDecode);
  EXPECT_NE(config.error().message.find("/etc/kube/config"), std::string::npos) << config.error().message;
  EXPECT_NE(config.error().message.find(c.want_message), std::string::npos) << config.error().message;
  EXPECT_NE(config.error().details.find(c.want_remedy), std::string::npos) << config.error().details;
}

const KubeconfigRefusalCase kKubeconfigRefusalCases[] = {
    {"NotYaml", "clusters: [", "not YAML: line 1", "kubectl config view"},
    {"Tabs", "clusters:\n\t- name: k\n", "not YAML: line 2", "kubectl config view"},
    {"NotAMap", "- a\n", "not a map", "key: value"},
    {"Empty", "", "current-context: not set", "name the context"},
    {"AnotherKind", "kind: Pod\n", "kind is \"Pod\"", "give a kubeconfig"},
    {"ContextMissing", "current-context: x\n", "names the context \"x\"", "choose another"},
    {"ClusterMissing",
     "current-context: c\ncontexts:\n- {name: c, context: {cluster: x}}\n",
     "contexts[\"c\"].context.cluster names the cluster \"x\"",
     "add this entry"},
    {"UserMissing",
     "current-context: c\nclusters:\n- {name: k, cluster: {server: 'https://a'}}\ncontexts:\n- {name: c, context: "
     "{cluster: k, user: x}}\n",
     "contexts[\"c\"].context.user names the user \"x\"",
     "add this entry"},
    {"ServerMissing", File("    {}\n", "    {}\n"), "clusters[\"k\"].cluster.server: not a URL", "https://HOST:PORT"},
    {"ServerWithoutScheme", File("    server: a:6443\n", "    {}\n"), "server: not a URL", "https://HOST:PORT"},
    {"ServerAMap", File("    server: {a: b}\n", "    {}\n"), "cluster.server: not a text", "one value"},
    {"ClustersAMap", "current-context: c\ncontexts: {a: b}\n", "contexts: not a list", "begin each item"},
    {"AuthorityNotBase64",
     File(kServer + "    certificate-authority-data: '***'\n", "    {}\n"),
     "certificate-authority-data: not base64",
     "base64 -w0"},
    {"SkipVerifyNotABoolean",
     File(kServer + "    insecure-skip-tls-verify: maybe\n", "    {}\n"),
     "\"maybe\" is not a boolean",
     "true or false"},
    {"SkipVerifyAndAuthority",
     File(kServer + "    insecure-skip-tls-verify: true\n    certificate-authority: x\n", "    {}\n"),
     "set together with certificate-authority",
     "remove insecure-skip-tls-verify"},
    {"ProxyWithoutScheme",
     File(kServer + "    proxy-url: p:1\n", "    {}\n"),
     "proxy-url: not the URL of a",
     "socks5://"},
    {"CertificateWithoutKey", File(kServer, "    client-certificate: x\n"), "user.client-key: not set", "give both"},
    {"KeyWithoutCertificate",
     File(kServer, "    client-key-data: eA==\n"),
     "user.client-certificate: not set",
     "give both"},
    {"TokenAndPassword", File(kServer, "    token: t\n    username: u\n"), "set together with a token", "keep one"},
    {"AuthProvider",
     File(kServer, "    auth-provider: {name: oidc}\n"),
     "not supported (\"oidc\")",
     "use an exec plugin"},
    {"ExecOldVersion",
     File(kServer, "    exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}\n"),
     "v1alpha1\" is not supported",
     "v1beta1"},
    {"ExecWithoutCommand",
     File(kServer, "    exec: {apiVersion: client.authentication.k8s.io/v1}\n"),
     "exec.command: not set",
     "name the program"},
    {"ExecWantsATerminal",
     File(kServer, "    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}\n"),
     "interactiveMode: Always",
     "no terminal"},
    {"ImpersonatedGroupsWithoutAUser", File(kServer, "    as-groups: [a]\n"), "user.as: not set", "begin with as-"},
    {"TokenInClearText",
     File("    server: http://10.0.0.1\n", "    token: t\n"),
     "http:// together with credentials",
     "write https://"},
};
INSTANTIATE_TEST_SUITE_P(Table, KubeconfigRefusal, ::testing::ValuesIn(kKubeconfigRefusalCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Kubeconfig, AFileThatIsMissingIsNamed) {
  const auto config = LoadKubeconfig({"/nowhere"}, "", Reading({}));
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kDecode);
  EXPECT_NE(config.error().message.find("\"/nowhere\": No such file"), std::string::npos) << config.error().message;
}

TEST(Kubeconfig, NoFileAtAllIsAnError) {
  const auto config = LoadKubeconfig({}, "", Reading({}));
  ASSERT_FALSE(config.has_value());
  EXPECT_NE(config.error().message.find("no file is named"), std::string::npos);
}

TEST(Kubeconfig, NoSecretIsInAnErrorText) {
  for (const std::string& text : {File(kServer, "    token: s3cret\n    username: u\n    password: s3cret\n"),
                                  File(kServer + "    proxy-url: htp://user:s3cret@proxy:3128\n", "    {}\n"),
                                  File(kServer + "    proxy-url: user:s3cret@proxy:3128\n", "    {}\n"),
                                  File("    server: user:s3cret@10.0.0.1\n", "    {}\n")}) {
    const auto config = Load(text);
    ASSERT_FALSE(config.has_value()) << text;
    EXPECT_FALSE((config.error().message + config.error().details).contains("s3cret")) << config.error().message;
  }
}

}  // namespace
}  // namespace berth::k8sclient
