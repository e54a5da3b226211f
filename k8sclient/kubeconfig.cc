// SPDX-License-Identifier: Apache-2.0
// Kubeconfig: reads YAML into entries, and makes a ClientConfig from the entries of one context.
#include "k8sclient/kubeconfig.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "k8sclient/openssl.h"

namespace berth::k8sclient {
namespace {

// Thrown inside this file only: an error check after each of forty optional fields would hide which fields are read.
struct Refused : std::exception {
  explicit Refused(Error why) : error(std::move(why)) {}
  Error error;
};

[[noreturn]] void Refuse(std::string message, std::string remedy) {
  throw Refused({.code = ErrorCode::kDecode, .message = std::move(message), .details = std::move(remedy)});
}

// The long base64 values, which are most of a kubeconfig. The YAML library matches each character with several
// patterns, which takes 0.3 ms of a process that lives for 10 ms. So before the YAML library reads the document,
// LongValues replaces each long base64 value with a short word, which is not base64.
class LongValues {
 public:
  // Returns the document with words instead of long values.
  [[nodiscard]] std::string ReplaceWithWords(std::string document) {
    // If the document contains a text of several lines, a line in it may look like a key with a value: change nothing.
    for (const char* const begins_text : {": |", ": >", "- |", "- >"}) {
      if (document.contains(begins_text)) return document;
    }
    for (const std::string_view key :
         {"certificate-authority-data: ", "client-certificate-data: ", "client-key-data: "}) {
      for (std::size_t at = document.find(key); at != std::string::npos; at = document.find(key, at)) {
        const std::size_t line = document.rfind('\n', at) + 1;  // 0 for the first line
        const bool begins_line =
            std::string_view(document).substr(line, at - line).find_first_not_of(" -") == std::string::npos;
        at += key.size();
        if (!begins_line) continue;
        const std::size_t end = std::min(document.find_first_of("\r\n", at), document.size());
        std::string value = document.substr(at, end - at);
        if (value.size() < kWorthwhile || !std::ranges::all_of(value, IsBase64)) continue;
        std::string word = "base64:" + std::to_string(values_.size());
        document.replace(at, value.size(), word);
        values_.emplace(std::move(word), std::move(value));
      }
    }
    return document;
  }

  // Returns the value for the word, and any other text unchanged.
  [[nodiscard]] std::string ValueOf(const std::string& text) const {
    const auto found = values_.find(text);
    return found == values_.end() ? text : found->second;
  }

 private:
  static constexpr std::size_t kWorthwhile = 64;

  static bool IsBase64(unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '='; }

  std::map<std::string, std::string> values_;
};

struct File {
  std::string path;
  LongValues long_values = {};
};

// A map in a file, and its place for messages: kubeconfig "/root/.kube/config": users["admin"].user.
class Section {
 public:
  Section(const YAML::Node& node, std::shared_ptr<const File> file, std::string place)
      : node_(node), file_(std::move(file)), place_(std::move(place)) {
    if (!node_.IsNull() && !node_.IsMap()) Refuse(Where() + ": not a map", "write key: value lines there");
  }

  [[nodiscard]] bool Has(const std::string& key) const { return !Find(key).IsNull(); }

  // Empty if the key is absent.
  [[nodiscard]] std::string Text(const std::string& key) const {
    const YAML::Node value = Find(key);
    if (!value.IsNull() && !value.IsScalar())
      Refuse(Where(key) + ": not a text", "write one value behind " + key + ":");
    return value.Scalar();
  }

  [[nodiscard]] bool Flag(const std::string& key) const {
    const std::string text = Text(key);
    if (!text.empty() && text != "true" && text != "false")
      Refuse(Where(key) + ": \"" + text.substr(0, 200) + "\" is not a boolean", "write true or false");
    return text == "true";
  }

  [[nodiscard]] std::vector<std::string> Texts(const std::string& key) const {
    std::vector<std::string> texts;
    for (const YAML::Node& item : List(key)) {
      if (!item.IsScalar()) Refuse(Where(key) + ": not a list of texts", "write one value per item");
      texts.push_back(item.Scalar());
    }
    return texts;
  }

  [[nodiscard]] std::map<std::string, std::vector<std::string>> TextLists(const std::string& key) const {
    const Section lists = Map(key);
    std::map<std::string, std::vector<std::string>> result;
    for (const auto& item : lists.node_) result[item.first.Scalar()] = lists.Texts(item.first.Scalar());
    return result;
  }

  [[nodiscard]] Section Map(const std::string& key) const { return {Find(key), file_, Place(key)}; }

  // The maps in a list. In a kubeconfig, each map in a list has a name.
  [[nodiscard]] std::vector<Section> Maps(const std::string& key) const {
    std::vector<Section> maps;
    for (const YAML::Node& item : List(key)) {
      const YAML::Node name = item.IsMap() ? item["name"] : YAML::Node();
      maps.emplace_back(item, file_, Place(key) + "[\"" + (name && name.IsScalar() ? name.Scalar() : "") + "\"]");
    }
    return maps;
  }

  // Resolves a path in the file. The result is absolute, or relative to the process's working directory if the file's
  // own path is relative.
  [[nodiscard]] std::string Resolved(const std::string& path) const {
    return path.empty() ? path : (std::filesystem::path(file_->path).parent_path() / path).string();
  }

  // The base64 value of <key>-data, else the path in <key>.
  [[nodiscard]] Material DataOrFile(const std::string& key) const {
    const std::string data = file_->long_values.ValueOf(Text(key + "-data"));
    if (data.empty()) return {.path = Resolved(Text(key))};
    Expected<std::string> bytes = DecodeBase64(data);
    if (!bytes) Refuse(Where(key + "-data") + ": not base64", "put there what \"base64 -w0 FILE\" prints");
    return {.text = std::move(*bytes)};
  }

  // The place of the section, or of a key in it.
  [[nodiscard]] std::string Where(const std::string& key = "") const {
    const std::string place = Place(key);
    return "kubeconfig \"" + file_->path + "\"" + (place.empty() ? "" : ": " + place);
  }

 private:
  [[nodiscard]] std::string Place(const std::string& key) const {
    return place_ + (place_.empty() || key.empty() ? "" : ".") + key;
  }

  // Null if the key is absent.
  [[nodiscard]] YAML::Node Find(const std::string& key) const {
    const YAML::Node value = node_.IsMap() ? node_[key] : YAML::Node();
    return value ? value : YAML::Node();
  }

  [[nodiscard]] YAML::Node List(const std::string& key) const {
    const YAML::Node list = Find(key);
    if (!list.IsNull() && !list.IsSequence()) Refuse(Where(key) + ": not a list", "begin each item with \"- \"");
    return list;
  }

  YAML::Node node_;
  std::shared_ptr<const File> file_;
  std::string place_;
};

using Files = std::vector<Section>;

Files ReadFiles(const std::vector<std::string>& paths, const ReadFile& read_file) {
  Files files;
  std::string first_failure;
  for (const std::string& path : paths) {
    const Expected<std::string> text = read_file(path);
    if (!text) {
      if (first_failure.empty()) first_failure = text.error().message;
      continue;
    }
    try {
      const auto file = std::make_shared<File>(path);
      files.emplace_back(YAML::Load(file->long_values.ReplaceWithWords(*text)), file, "");
    } catch (const YAML::Exception& e) {
      Refuse("kubeconfig \"" + path + "\": not YAML: line " + std::to_string(e.mark.line + 1) + ": " + e.msg,
             "compare with the output of \"kubectl config view --raw\"");
    }
    const std::string kind = files.back().Text("kind");
    if (!kind.empty() && kind != "Config") {
      Refuse("kubeconfig \"" + path + "\": kind is \"" + kind.substr(0, 200) + "\", not Config", "give a kubeconfig");
    }
  }
  if (files.empty()) {
    Refuse("kubeconfig: " + (first_failure.empty() ? "no file is named" : first_failure),
           "give the path of a kubeconfig that this user may read");
  }
  return files;
}

// The entry `name` of the list `kind` + "s", from the first file that has the entry.
Section FindEntry(const Files& files, const std::string& kind, const std::string& name, const std::string& named_by) {
  for (const Section& file : files) {
    for (const Section& entry : file.Maps(kind + "s")) {
      if (entry.Text("name") == name) return entry.Map(kind);
    }
  }
  Refuse(named_by + " names the " + kind + " \"" + name + "\", which is not among " + kind + "s",
         "add this entry to the file, or choose another context");
}

std::string CurrentContext(const Files& files) {
  for (const Section& file : files) {
    std::string name = file.Text("current-context");
    if (!name.empty()) return name;
  }
  Refuse(files.front().Where("current-context") + ": not set", "name the context to use there");
}

void FillCluster(const Section& cluster, ClientConfig& config) {
  config.server = cluster.Text("server");
  while (config.server.ends_with('/')) config.server.pop_back();
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    // The errors quote neither this URL nor the proxy's: a URL may contain a password.
    Refuse(cluster.Where("server") + ": not a URL", "write https://HOST:PORT, such as https://10.0.0.1:6443");
  }
  config.tls_server_name = cluster.Text("tls-server-name");
  config.insecure_skip_tls_verify = cluster.Flag("insecure-skip-tls-verify");
  config.certificate_authority = cluster.DataOrFile("certificate-authority");
  if (config.insecure_skip_tls_verify && !config.certificate_authority.empty()) {
    Refuse(cluster.Where("insecure-skip-tls-verify") + ": set together with certificate-authority",
           "remove insecure-skip-tls-verify, so that the server is verified");
  }
  config.proxy_url = cluster.Text("proxy-url");
  const auto scheme = config.proxy_url.substr(0, config.proxy_url.find("://"));
  if (!config.proxy_url.empty() && (scheme != "http" && scheme != "https" && scheme != "socks5")) {
    Refuse(cluster.Where("proxy-url") + ": not the URL of a proxy", "begin it with http://, https:// or socks5://");
  }
}

ExecPlugin ReadExec(const Section& exec) {
  ExecPlugin plugin{.api_version = exec.Text("apiVersion"),
                    .command = exec.Text("command"),
                    .args = exec.Texts("args"),
                    .provide_cluster_info = exec.Flag("provideClusterInfo"),
                    .install_hint = exec.Text("installHint")};
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    Refuse(exec.Where("apiVersion") + ": \"" + plugin.api_version.substr(0, 200) + "\" is not supported",
           "use a plugin that speaks client.authentication.k8s.io/v1 or v1beta1");
  }
  if (plugin.command.empty()) Refuse(exec.Where("command") + ": not set", "name the program to run");
  // As in client-go, a command without a slash is searched in PATH, and a command with a slash is a path.
  if (plugin.command.find('/') != std::string::npos) plugin.command = exec.Resolved(plugin.command);
  if (exec.Text("interactiveMode") == "Always") {
    Refuse(exec.Where("interactiveMode") + ": Always", "use a plugin that needs no terminal: berth has none");
  }
  for (const Section& variable : exec.Maps("env")) {
    plugin.environment[variable.Text("name")] = variable.Text("value");
  }
  return plugin;
}

void FillImpersonation(const Section& user, ClientConfig& config) {
  config.impersonate_user = user.Text("as");
  config.impersonate_uid = user.Text("as-uid");
  config.impersonate_groups = user.Texts("as-groups");
  config.impersonate_extra = user.TextLists("as-user-extra");
  const bool more =
      !config.impersonate_uid.empty() || !config.impersonate_groups.empty() || !config.impersonate_extra.empty();
  if (more && config.impersonate_user.empty())
    Refuse(user.Where("as") + ": not set", "set the key \"as\": the keys that begin with as- need it");
}

void FillUser(const Section& user, ClientConfig& config) {
  if (user.Has("auth-provider")) {
    Refuse(
        user.Where("auth-provider") + ": not supported (\"" + user.Map("auth-provider").Text("name") + "\")",
        "use an exec plugin, a client certificate or a token: Kubernetes itself removed most auth providers in 1.26");
  }
  config.client_certificate = user.DataOrFile("client-certificate");
  config.client_key = user.DataOrFile("client-key");
  if (config.client_certificate.empty() != config.client_key.empty()) {
    Refuse(user.Where(config.client_key.empty() ? "client-key" : "client-certificate") + ": not set",
           "give both client-certificate and client-key");
  }
  config.token.path = user.Resolved(user.Text("tokenFile"));
  if (config.token.path.empty()) config.token.text = user.Text("token");
  config.username = user.Text("username");
  config.password = user.Text("password");
  if (!config.username.empty() && !config.token.empty()) {
    Refuse(user.Where("username") + ": set together with a token", "keep one of the two");
  }
  if (user.Has("exec")) config.exec = ReadExec(user.Map("exec"));
  FillImpersonation(user, config);
}

void RefuseSecretsInClearText(const Section& cluster, const ClientConfig& config) {
  if (!config.server.starts_with("http://")) return;
  if (config.token.empty() && config.username.empty() && !config.exec && config.client_certificate.empty()) return;
  Refuse(cluster.Where("server") + ": http:// together with credentials, which would be sent in clear text",
         "write https://");
}

ClientConfig Resolve(const std::vector<std::string>& paths, const std::string& context, const ReadFile& read_file) {
  const Files files = ReadFiles(paths, read_file);
  const std::string name = context.empty() ? CurrentContext(files) : context;
  const std::string named_by =
      context.empty() ? files.front().Where("current-context") : files.front().Where() + ": --context";
  const Section chosen = FindEntry(files, "context", name, named_by);
  ClientConfig config{.source = chosen.Where(), .server = {}};
  const Section cluster = FindEntry(files, "cluster", chosen.Text("cluster"), chosen.Where("cluster"));
  FillCluster(cluster, config);
  config.user_entry = chosen.Text("user");
  if (!config.user_entry.empty()) {
    FillUser(FindEntry(files, "user", config.user_entry, chosen.Where("user")), config);
  }
  RefuseSecretsInClearText(cluster, config);
  return config;
}

}  // namespace

std::vector<std::string> SplitKubeconfigList(const std::string& variable) {
  std::vector<std::string> paths;
  for (const auto part : std::views::split(variable, ':')) {
    std::string path(part.begin(), part.end());
    if (!path.empty() && std::ranges::find(paths, path) == paths.end()) paths.push_back(std::move(path));
  }
  return paths;
}

Expected<ClientConfig> LoadKubeconfig(const std::vector<std::string>& paths, const std::string& context,
                                      const ReadFile& read_file) {
  try {
    return Resolve(paths, context, read_file);
  } catch (Refused& refused) {
    return std::unexpected(std::move(refused.error));
  } catch (const YAML::Exception& e) {
    return Fail(ErrorCode::kDecode, "kubeconfig: " + std::string(e.what()));
  }
}

}  // namespace berth::k8sclient
