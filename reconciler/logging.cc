// SPDX-License-Identifier: Apache-2.0
// Sets up the logger, and writes log lines.
#include "reconciler/logging.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "crds/names.h"
#include "ipam/address.h"
#include "ipam/entry.h"
#include "reconciler/events.h"

namespace berth::reconciler {

namespace {

// The message as a JSON string with its quotes.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& out) override {
    const nlohmann::json text = std::string(message.payload.data(), message.payload.size());
    const std::string quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

// The message with control characters as \xNN, so that it is one line.
class TextMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& out) override {
    for (const char c : message.payload) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte != 0x7f) {
        out.push_back(c);
      } else {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
      }
    }
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<TextMessage>();
  }
};

}  // namespace

void SetUpLogging(const std::string& level, bool as_json) {
  auto logger = std::make_shared<spdlog::logger>("berth", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  if (as_json) {
    formatter->add_flag<JsonMessage>('*').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})");
  } else {
    formatter->add_flag<TextMessage>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %*");
  }
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

std::string LogValue(const std::string& foreign) {
  const bool is_plain = std::ranges::all_of(foreign, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-._:/").contains(static_cast<char>(c));
  });
  return is_plain ? foreign : Quoted(foreign);
}

void LogPoolStatus(const SeenPool& before, const SeenPool& after) {
  const crds::Condition* old = crds::FindCondition(before.status.conditions, crds::kReadyCondition);
  const crds::Condition* now = crds::FindCondition(after.status.conditions, crds::kReadyCondition);
  const bool is_news = now != nullptr && (old == nullptr || old->status != now->status || old->reason != now->reason);
  if (is_news) {
    spdlog::info("pool condition written pool={} ready={} reason={} message={}",
                 after.meta.name,
                 now->status,
                 now->reason,
                 Quoted(now->message));
    return;
  }
  spdlog::debug("pool status written pool={} used={} free={} blocks={}",
                after.meta.name,
                ipam::ToString(after.status.used),
                ipam::ToString(after.status.free),
                after.status.blocks);
}

void LogFreed(const ipam::Block& after, const FreedEntry& freed) {
  const bool agent_looks = ipam::FreedUnder(after.allocations.at(freed.offset)).has_value();
  spdlog::info("orphan freed pool={} block={} address={} pod={} uid={} attachment={} node={} why={} proof={}",
               after.pool,
               after.name,
               after.cidr.At(freed.offset).ToString(),
               LogValue(NamespacedName(freed.entry.pod_namespace, freed.entry.pod)),
               LogValue(freed.entry.uid),
               LogValue(freed.entry.attachment),
               LogValue(freed.node),
               WhyFreed(freed),
               freed.node_is_gone ? "node-gone"
               : agent_looks      ? "agent-looks"
                                  : "time");
}

}  // namespace berth::reconciler
