// SPDX-License-Identifier: Apache-2.0
// Formats and appends log lines.
#include "cni-plugin/call_log.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"

namespace berth::cni_plugin {

namespace {

constexpr std::array kLevelNames = {"error", "warn", "info", "debug"};
constexpr std::size_t kQuotedMax = 200;

// Quotes the first 200 bytes of foreign text, with "?" for each byte that could break the line, such as a newline or a
// quote.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, kQuotedMax)) {
    const bool breaks = static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
    quoted += breaks ? '?' : c;
  }
  return quoted + "\"";
}

std::string TimeText() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string millis = std::to_string(now.tv_nsec / 1'000'000);
  return std::string(text.data(), length) + "." + std::string(3 - millis.size(), '0') + millis + "Z";
}

}  // namespace

CallLog::CallLog(const std::string& file, cni::LogLevel level)
    : level_(level), start_(std::chrono::steady_clock::now()) {
  if (file.empty()) return;
  // Open no symbolic link, and do not wait for a pipe's reader.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor opened(open(file.c_str(), kFlags, 0640));
  if (!opened.is_open() && errno == ENOENT && mkdir(file.substr(0, file.rfind('/')).c_str(), 0755) == 0) {
    opened = Descriptor(open(file.c_str(), kFlags, 0640));
  }
  struct stat status{};
  const bool is_file = opened.is_open() && fstat(opened.descriptor(), &status) == 0 && S_ISREG(status.st_mode);
  if (is_file && dup2(opened.descriptor(), STDERR_FILENO) >= 0) return;
  const std::string complaint = "berth: ipam.logFile " + file + " cannot be opened, so the log goes to stderr\n";
  static_cast<void>(!write(STDERR_FILENO, complaint.data(), complaint.size()));
}

void CallLog::Succeeded(const cni::Environment& environment, const cni::NetworkConfig& config, std::string_view node,
                        std::string_view attachment, std::string_view answer) {
  std::string more = " node=" + std::string(node) + " attachment=" + std::string(attachment);
  if (!answer.empty()) more += " answer=" + Quoted(answer);
  Write(cni::LogLevel::kInfo, "call done", environment, config, more);
}

void CallLog::Failed(const cni::Environment& environment, const cni::NetworkConfig& config, const Error& error) {
  std::string more = " code=" + std::to_string(CniCode(error.code)) + " err=" + Quoted(error.message);
  if (!error.details.empty()) more += " details=" + Quoted(error.details);
  Write(cni::LogLevel::kWarn, "call failed", environment, config, more);
}

void CallLog::Write(cni::LogLevel level, std::string_view message, const cni::Environment& environment,
                    const cni::NetworkConfig& config, std::string_view more) {
  if (level > level_) return;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
  std::string line = TimeText() + " " + kLevelNames[static_cast<std::size_t>(level)] + " " + std::string(message) +
                     " verb=" + std::string(cni::ToString(environment.verb)) +
                     " network=" + config.name.substr(0, kQuotedMax);
  if (!environment.container_id.empty()) {
    line += " container=" + environment.container_id + " interface=" + Quoted(environment.ifname);
  }
  line += std::string(more) + " took_ms=" + std::to_string(took.count()) + "\n";
  // Ignore errors: a full disk must not make the call fail.
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace berth::cni_plugin
