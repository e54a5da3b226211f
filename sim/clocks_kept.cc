// SPDX-License-Identifier: Apache-2.0
// Rule `clock`: whatever the clocks of machines show, a freed address cools for the pool's cooldown, and no entry names
// a time in the future. The checker uses the right time. The clocks of API servers are wrong by error_of_servers at
// most.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include <spdlog/fmt/fmt.h>

#include "reconciler/decide_orphans.h"
#include "reconciler/suspects.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

using namespace std::chrono_literals;

// Each of two programs knows the API server's time with an error of a second plus the duration of its fastest request.
constexpr Nanos kTolerance = 4s;
// Longest time from a program's decision to its write: the network may delay the write (network.cc), and the program
// may send it again.
constexpr Nanos kUnderWay = 25s;

double Seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

class ClocksKept final : public Checker {
 public:
  ClocksKept(Story& story, Nanos error_of_servers) : story_(story), tolerance_(kTolerance + 2 * error_of_servers) {}

  void Leaving(const ipam::Attachment& attachment) override { left_.try_emplace(attachment, Calendar()); }
  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    // If the block is gone, there is nothing to check: a later block has another UID.
    if (after.is_null()) return;
    const std::string uid = after["metadata"]["uid"];
    const nlohmann::json none = nlohmann::json::object();
    const nlohmann::json old_entries = before.is_null() ? none : before.value("allocations", none);
    const nlohmann::json new_entries = after.value("allocations", none);
    for (const auto& [offset, entry] : new_entries.items()) {
      const std::string was = old_entries.value(offset, std::string());
      const std::string is = entry;
      if (was != is) Changed({uid, offset}, was, is);
    }
    for (const auto& [offset, entry] : old_entries.items()) {
      if (!new_entries.contains(offset)) Changed({uid, offset}, entry, {});
    }
  }

 private:
  using Place = std::pair<std::string, std::string>;  // a block's UID, and the offset
  struct Rest {
    Nanos until{0};  // the earliest end of the cooling
    ipam::Attachment after;
    Nanos cooldown{0};  // if a DEL came: cooling may end this long after it
  };

  // The DEL may have come after the controller freed the address.
  [[nodiscard]] Nanos UntilOf(const Rest& rest) const {
    const auto left = left_.find(rest.after);
    return left == left_.end() ? rest.until : std::min(rest.until, left->second + rest.cooldown);
  }

  void Changed(const Place& place, const std::string& was, const std::string& is) {
    const auto entry = ipam::ParseEntry(is);
    const auto* held = std::get_if<ipam::HeldEntry>(&entry);
    const auto* cooling = std::get_if<ipam::CoolingEntry>(&entry);
    const Nanos now = Calendar();
    if (held != nullptr && std::chrono::milliseconds(held->since_ms) > now + tolerance_) {
      story_.Break("clock", "an entry is dated ahead: " + is);
    }
    if (const auto rest = rests_.find(place); rest != rests_.end() && cooling == nullptr) {
      // The agent writes the entry of a container again that still exists, or the controller puts the entry of a pod
      // back whose status has the address.
      const bool is_its = held != nullptr && (held->attachment == rest->second.after ||
                                              held->attachment.starts_with(reconciler::kNoNetwork));
      const Nanos until = UntilOf(rest->second);
      if (!is_its && (held != nullptr || is.empty()) && now + tolerance_ < until) {
        story_.Break("clock",
                     fmt::format("an address rests {:.1f} s too short: {} became {}",
                                 Seconds(until - now),
                                 was,
                                 is.empty() ? "free" : is));
      }
      rests_.erase(rest);
    }
    if (cooling != nullptr) Rests(place, was, is, *cooling);
  }

  void Rests(const Place& place, const std::string& was, const std::string& is, const ipam::CoolingEntry& cooling) {
    const auto before = ipam::ParseEntry(was);
    const auto* held = std::get_if<ipam::HeldEntry>(&before);
    if (held == nullptr) return;
    const bool is_freed = !cooling.forget.empty();
    const Nanos length = is_freed ? Nanos(reconciler::kFreedRest) : Nanos(std::chrono::seconds(held->cooldown_s));
    const Nanos now = Calendar();
    if (std::chrono::milliseconds(cooling.until_ms) > now + length + tolerance_) {
      story_.Break("clock",
                   fmt::format("an address rests {:.1f} s too long: {} became {}",
                               Seconds(std::chrono::milliseconds(cooling.until_ms) - now - length),
                               was,
                               is));
    }
    // An address that a person frees does not cool (World::FreeByHand).
    if (is.starts_with("~ t=1767225600000 ")) return;
    // If a DEL was sent, the agent may free the address by it, even if the controller freed the entry before.
    const auto left = left_.find(held->attachment);
    Nanos until = now - kUnderWay + length;
    if (left != left_.end()) {
      const Nanos by_del = left->second + Nanos(std::chrono::seconds(held->cooldown_s));
      until = is_freed ? std::min(until, by_del) : by_del;
    }
    rests_[place] = {.until = until, .after = held->attachment, .cooldown = std::chrono::seconds(held->cooldown_s)};
  }

  Story& story_;
  const Nanos tolerance_;
  std::map<ipam::Attachment, Nanos> left_;
  std::map<Place, Rest> rests_;
};

}  // namespace

std::unique_ptr<Checker> MakeClocksKept(Story& story, Nanos error_of_servers) {
  return std::make_unique<ClocksKept>(story, error_of_servers);
}

}  // namespace berth::sim
