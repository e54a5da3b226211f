// SPDX-License-Identifier: Apache-2.0
// Fingerprints of explored worlds: equal for worlds that differ only in version numbers, ids or times without an
// effect.
#include <algorithm>
#include <set>
#include <type_traits>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {

class ExploredWorld::Printer {
 public:
  explicit Printer(std::set<std::uint64_t> versions) : versions_(std::move(versions)) {}

  void Print(char mark, std::uint64_t number) {
    text_ += mark;
    while (number > 0) {
      text_ += static_cast<char>('0' + number % 64);
      number /= 64;
    }
  }
  // Prints the version's rank: only the order of versions matters.
  void PrintVersion(std::string_view version) {
    Print('v', static_cast<std::uint64_t>(std::distance(versions_.begin(), versions_.find(VersionOf(version)))));
  }
  // The last digit identifies the attachment.
  void PrintAttachment(std::string_view attachment) { text_ += attachment.empty() ? '-' : attachment.back(); }
  void PrintEntry(std::string_view text) { PrintAttachment(ipam::AttachmentOf(text)); }
  void PrintOffsets(const ipam::OffsetSet& offsets) {
    std::uint64_t sum = 0;
    for (const ipam::BlockOffset offset : offsets) sum += std::uint64_t{1} << offset;
    Print('s', sum);
  }
  void PrintBlock(const ipam::Block& block) {
    PrintVersion(block.resource_version);
    for (const auto& [offset, text] : block.allocations) {
      Print('e', offset);
      PrintEntry(text);
    }
    PrintOffsets(block.standby);
    Print('n', block.next * 4 + block.free);
    text_ += block.agent.substr(0, block.agent.find('.'));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::set<std::uint64_t> versions_;
  std::string text_;
};

namespace {

void AddVersion(std::set<std::uint64_t>& versions, const ipam::Block* block) {
  if (block != nullptr) versions.insert(VersionOf(*block));
}

std::uint64_t Bits(std::initializer_list<bool> bits) {
  std::uint64_t sum = 0;
  for (const bool bit : bits) sum = 2 * sum + (bit ? 1 : 0);
  return sum;
}

}  // namespace

std::string ExploredWorld::Fingerprint() const {
  std::string faults;
  for (const int left : {left_.losses, left_.refusals, left_.outages, left_.removals, left_.touches, left_.limits}) {
    faults += std::to_string(left);
  }
  faults += std::to_string(left_.successors) + std::to_string(left_.restores);
  for (const Late& one : late_) faults += ShownDifference(stored_, one.after) + ";";
  return faults + FingerprintAtRest();
}

std::string ExploredWorld::FingerprintAtRest() const {
  std::set<std::uint64_t> versions;
  AddVersion(versions, &stored_);
  versions.insert(last_version_);
  AddVersion(versions, state_.view.get());
  AddVersion(versions, state_.observed.get());
  if (state_.doubt_version) versions.insert(VersionOf(*state_.doubt_version));
  for (const Round& round : state_.rounds) AddVersion(versions, round.before.get());
  Printer out(std::move(versions));
  out.PrintBlock(stored_);
  out.PrintVersion(std::to_string(last_version_));
  out.Print('a', asked_ ? asked_->index() + 1 : 0);
  for (const Pod& pod : pods_) {
    const bool has_offset = pod.is == Pod::Is::kHolding || pod.is_noted;
    out.Print('p', static_cast<std::uint64_t>(pod.is) * 8 + (pod.is_noted ? 4 : 0) + (has_offset ? pod.offset : 0));
  }
  PrintState(out);
  return out.text();
}

void ExploredWorld::PrintState(Printer& out) const {
  out.PrintBlock(*state_.view);
  for (const auto& [offset, one] : state_.to_restore) {
    out.Print('o', offset);
    out.PrintEntry(one.found);
    out.PrintEntry(one.wanted);
  }
  for (const auto& [offset, one] : state_.handed_out) {
    out.Print('h', offset * 2 + (one.is_refused ? 1 : 0));
    out.PrintAttachment(one.attachment);
  }
  out.Print('f', Bits({state_.standby_plan.has_value(), state_.is_failing, state_.must_fence, state_.is_sending}));
  if (state_.doubt_version) out.PrintVersion(*state_.doubt_version);
  for (const auto* attachments : {&state_.in_doubt, &state_.attachments_in_flight}) {
    out.Print('d', attachments->size());
    for (const ipam::Attachment& one : *attachments) out.PrintAttachment(one);
  }
  out.PrintOffsets(state_.leaving);
  if (state_.observed != nullptr) out.PrintBlock(*state_.observed);
  for (const PendingChange& one : state_.queue) PrintPending(one, out);
  for (const Round& round : state_.rounds) PrintRound(round, out);
}

void ExploredWorld::PrintRound(const Round& round, Printer& out) const {
  out.Print('r',
            Bits({round.has_begun,
                  round.is_in_doubt,
                  round.is_alone,
                  round.is_settled,
                  round.fences,
                  round.deadline > now_.steady,
                  round.not_before > now_.steady}));
  out.Print('y', std::uint64_t{round.only ? *round.only + 1 : 0} * 16 + static_cast<std::uint64_t>(round.awaits) * 4);
  out.Print('c', static_cast<std::uint64_t>(round.conflicts));
  for (const PendingChange& one : round.changes) PrintPending(one, out);
  if (round.awaits == Round::Awaits::kNothing) return;
  if (round.before != nullptr) out.PrintBlock(*round.before);
  out.PrintBlock(round.after);
  for (const auto& [offset, attachment] : round.carried) {
    out.Print('k', offset);
    out.PrintAttachment(attachment);
  }
}

void ExploredWorld::PrintPending(const PendingChange& one, Printer& out) const {
  const bool is_asked = std::ranges::any_of(ids_, [&](const Asked& asked) { return asked.id == one.id; });
  out.Print('w', one.change.what.index());
  out.PrintAttachment(one.change.attachment);
  out.Print('.',
            Bits({is_asked,
                  one.has_caller,
                  one.change.standby.has_value(),
                  one.change.fence,
                  one.deadline > now_.steady,
                  one.due > now_.steady}));
}

}  // namespace berth::agent_core
