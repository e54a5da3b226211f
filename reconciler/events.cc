// SPDX-License-Identifier: Apache-2.0
// Writes the texts of events, and makes Events in the form in which kubectl finds them.
#include "reconciler/events.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/timestamp.h"
#include "crds/names.h"
#include "reconciler/decide_status.h"

namespace berth::reconciler {

namespace {

constexpr const char* kComponent = "berth-controller";
// Limit of names in one event; the log has them all.
constexpr std::size_t kNamedMax = 10;

constexpr std::size_t kNameMax = 253;

// A unique name for an Event: two events about one object in the same millisecond have different reasons.
std::string EventName(const Announcement& announcement, std::int64_t now_ms) {
  const std::string end = "." + std::to_string(now_ms) + "." + announcement.reason;
  std::string name = announcement.name;
  if (name.size() + end.size() > kNameMax) {
    const std::string uid = "." + announcement.uid;  // two objects' names may have the same beginning
    name.resize(kNameMax - uid.size() - end.size());
    while (name.ends_with('-') || name.ends_with('.')) name.pop_back();
    name += uid;
  }
  name += end;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// True if the condition has the status that needs no attention.
bool IsGood(const crds::Condition& condition) {
  const bool is_good_if_true = condition.type == crds::kReadyCondition || condition.type == kReclaimingCondition ||
                               condition.type == kCountedCondition;
  return condition.status == (is_good_if_true ? "True" : "False");
}

// The names of the first kNamedMax items, and the number of the other items.
template <typename Item, typename Name>
std::string Named(const std::vector<Item>& items, const Name& name, const std::string& separator = ", ") {
  std::string text;
  for (std::size_t i = 0; i < items.size() && i < kNamedMax; ++i) text += (i == 0 ? "" : separator) + name(items[i]);
  if (items.size() > kNamedMax) text += " and " + std::to_string(items.size() - kNamedMax) + " more";
  return text;
}

std::string HolderText(const ipam::Address& address, const ipam::HeldEntry& entry) {
  return address.ToString() + " of " + NamespacedName(entry.pod_namespace, entry.pod);
}

Announcement OfBlock(const std::string& name, const std::string& uid, Reason why, bool is_warning = true) {
  return {.kind = crds::kBlockKind,
          .name = name,
          .uid = uid,
          .is_warning = is_warning,
          .reason = std::move(why.reason),
          .message = std::move(why.message)};
}

}  // namespace

std::string_view WhyFreed(const FreedEntry& entry) {
  if (entry.node_is_gone) return "node-gone";
  if (entry.was_terminal) return "pod-ended";
  if (entry.sandbox_unknown) return "sandbox-unknown";
  return entry.was_replaced ? "sandbox-replaced" : "pod-gone";
}

Announcement FreedAnnouncement(const ipam::Block& block, const std::vector<FreedEntry>& freed) {
  const auto name = [&block](const FreedEntry& one) {
    return HolderText(block.cidr.At(one.offset), one.entry) + " (" + std::string(WhyFreed(one)) + ")";
  };
  const std::string what = "freed addresses of pods that are gone and for which no DEL came: ";
  return OfBlock(block.name, block.uid, {.reason = "OrphansFreed", .message = what + Named(freed, name)}, false);
}

Announcement InUseAnnouncement(const ipam::Block& block, const std::vector<FreedEntry>& entries) {
  const auto name = [&block](const FreedEntry& one) {
    return HolderText(block.cidr.At(one.offset), one.entry) + " on node " + one.node + " (network namespace " +
           one.entry.netns + ")";
  };
  const std::string what =
      "kept addresses of pods that are gone, because their containers still exist; end these containers on the nodes: ";
  return OfBlock(block.name, block.uid, {.reason = "FreedInUse", .message = what + Named(entries, name)});
}

Announcement PutBackAnnouncement(const ipam::Block& block, const std::vector<LostEntry>& entries) {
  const auto name = [](const LostEntry& one) { return HolderText(one.address, one.entry); };
  const std::string what = "recorded these addresses of live pods again, because the addresses had no entry: ";
  return OfBlock(block.name, block.uid, {.reason = "EntriesPutBack", .message = what + Named(entries, name)});
}

Announcement ContestedAnnouncement(const std::vector<ContestedAddress>& contested) {
  const auto name = [](const ContestedAddress& one) { return one.text; };
  const std::string message = "delete one pod of each pair: " + Named(contested, name, "; ");
  const ContestedAddress& first = contested.front();
  return OfBlock(first.block, first.block_uid, {.reason = "TwoHolders", .message = message});
}

std::vector<Announcement> PoolAnnouncements(const SeenPool& before, const SeenPool& after) {
  std::vector<Announcement> announcements;
  for (const crds::Condition& now : after.status.conditions) {
    const crds::Condition* old = crds::FindCondition(before.status.conditions, now.type);
    if (old != nullptr && old->status == now.status && old->reason == now.reason) continue;
    if (old == nullptr && IsGood(now) && now.type != crds::kReadyCondition) continue;
    announcements.push_back({.kind = crds::kPoolKind,
                             .name = after.meta.name,
                             .uid = after.meta.uid,
                             .is_warning = !IsGood(now),
                             .reason = now.reason,
                             .message = now.message});
  }
  return announcements;
}

nlohmann::json EventOf(const Announcement& announcement, std::int64_t now_ms) {
  const std::string now = FormatTimestamp(now_ms);
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"name", EventName(announcement, now_ms)}, {"namespace", "default"}}},
          {"involvedObject",
           {{"apiVersion", announcement.kind == kNodeKind ? std::string_view("v1") : crds::kApiVersion},
            {"kind", announcement.kind},
            {"name", announcement.name},
            {"uid", announcement.uid}}},
          {"type", announcement.is_warning ? "Warning" : "Normal"},
          {"reason", announcement.reason},
          {"message", announcement.message.substr(0, kEventMessageMax)},
          {"source", {{"component", kComponent}}},
          {"firstTimestamp", now},
          {"lastTimestamp", now},
          {"count", 1}};
}

}  // namespace berth::reconciler
