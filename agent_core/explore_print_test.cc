// SPDX-License-Identifier: Apache-2.0
// Fingerprints of explored worlds: equal for worlds that differ only in version numbers, ids or times without an
// effect.
#include <algorithm>
#include <array>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {

// A hash, of which the search keeps 58 bits: in a search of ten million worlds, the chance that two of them have one
// hash is 1 to 6,000.
class ExploredWorld::Hasher {
 public:
  void Add(std::uint64_t number) {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
    constexpr std::uint64_t kFirst = 0xbf58476d1ce4e5b9;
    constexpr std::uint64_t kSecond = 0x94d049bb133111eb;
    hash_ = (hash_ + kStep) ^ number;
    hash_ = (hash_ ^ (hash_ >> 30U)) * kFirst;
    hash_ = (hash_ ^ (hash_ >> 27U)) * kSecond;
    hash_ ^= hash_ >> 31U;
  }
  // `mark` keeps apart lists that follow each other.
  void Add(char mark, std::uint64_t number) { Add((number << 8U) + static_cast<unsigned char>(mark)); }
  void AddBits(char mark, std::initializer_list<bool> bits) {
    std::uint64_t sum = 1;
    for (const bool bit : bits) sum = 2 * sum + (bit ? 1 : 0);
    Add(mark, sum);
  }

  // AddVersion adds the version's rank among the known versions: only their order matters.
  void KnowVersion(std::uint64_t version) {
    const auto end = versions_.begin() + known_;
    if (std::find(versions_.begin(), end, version) == end) versions_.at(static_cast<std::size_t>(known_++)) = version;
  }
  void Know(const ipam::BlockView& block) {
    if (block != nullptr) KnowVersion(VersionOf(*block));
  }
  void ForgetVersions() { known_ = 0; }
  void AddVersion(std::uint64_t version) {
    const auto is_lower = [version](std::uint64_t one) { return one < version; };
    Add('v', static_cast<std::uint64_t>(std::count_if(versions_.begin(), versions_.begin() + known_, is_lower)));
  }

  // The last digits identify the attachment.
  void AddAttachment(std::string_view attachment) {
    Add('a', attachment.empty() ? 0 : static_cast<unsigned char>(attachment.back()));
  }
  void AddEntry(std::string_view text) { AddAttachment(ipam::AttachmentOf(text)); }
  void AddOffsets(const ipam::OffsetSet& offsets) {
    std::uint64_t sum = 0;
    for (const ipam::BlockOffset offset : offsets) sum += std::uint64_t{1} << offset;
    Add('s', sum);
  }
  void AddBlock(const ipam::Block& block) {
    AddVersion(VersionOf(block));
    for (const auto& [offset, text] : block.allocations) {
      Add('e', offset);
      AddEntry(text);
    }
    AddOffsets(block.standby);
    Add('n', (std::uint64_t{block.next} << 8U) + block.free);
    // "m-b.7": only the agent matters, not its counter.
    constexpr std::size_t kLetter = 2;
    Add('g', block.agent.size() > kLetter ? static_cast<unsigned char>(block.agent[kLetter]) : 0);
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
  std::array<std::uint64_t, 16> versions_{};
  std::ptrdiff_t known_ = 0;
};

ExploredWorld::Fingerprint ExploredWorld::TakeFingerprint() const {
  Hasher out;
  for (const Pod& pod : pods_) {
    const bool has_offset = pod.is == Pod::Is::kHolding || pod.is_noted;
    const std::uint64_t place = (std::uint64_t{pod.block} << 8U) + (has_offset ? pod.offset : 0);
    out.Add('p', (place << 8U) + static_cast<std::uint64_t>(pod.is) * 2 + (pod.is_noted ? 1 : 0));
  }
  for (std::size_t block = 0; block < server_.size(); ++block) HashBlock(block, out);
  const std::uint64_t at_rest = out.hash();
  for (const int left : {left_.losses,
                         left_.refusals,
                         left_.outages,
                         left_.removals,
                         left_.touches,
                         left_.limits,
                         left_.successors,
                         left_.restores}) {
    out.Add('f', static_cast<std::uint64_t>(left));
  }
  for (const AtServer& at : server_) {
    for (const ipam::BlockView& after : at.late) {
      out.Add('l', 0);
      out.AddBlock(*after);
    }
  }
  return {.whole = out.hash(), .at_rest = at_rest};
}

void ExploredWorld::HashBlock(std::size_t block, Hasher& out) const {
  const AtServer& at = server_[block];
  const BlockState& state = State(block);
  out.ForgetVersions();
  out.Know(at.stored);
  out.KnowVersion(at.newest);
  out.Know(state.view);
  out.Know(state.observed);
  if (state.doubt_version) out.KnowVersion(ParseVersion(*state.doubt_version));
  for (const Round& round : state.rounds) out.Know(round.before);
  out.AddBlock(*at.stored);
  out.AddVersion(at.newest);
  out.Add('q', static_cast<std::uint64_t>(at.awaits));
  HashState(state, out);
}

void ExploredWorld::HashState(const BlockState& state, Hasher& out) const {
  out.AddBlock(*state.view);
  for (const auto& [offset, one] : state.to_restore) {
    out.Add('o', offset);
    out.AddEntry(one.found);
    out.AddEntry(one.wanted);
  }
  for (const auto& [offset, one] : state.handed_out) {
    out.Add('h', offset * 2 + (one.is_refused ? 1 : 0));
    out.AddAttachment(one.attachment);
  }
  out.AddBits('f',
              {state.standby_plan.has_value(),
               state.is_failing,
               state.must_fence,
               state.is_sending,
               state.doubt_version.has_value(),
               state.observed != nullptr,
               state.foreign_agent.has_value(),
               state.foreign_agent && state.foreign_agent->came_back});
  if (state.doubt_version) out.AddVersion(ParseVersion(*state.doubt_version));
  for (const auto* attachments : {&state.in_doubt, &state.attachments_in_flight}) {
    out.Add('d', attachments->size());
    for (const ipam::Attachment& one : *attachments) out.AddAttachment(one);
  }
  out.AddOffsets(state.leaving);
  if (state.observed != nullptr) out.AddBlock(*state.observed);
  for (const PendingChange& one : state.queue) HashPending(one, out);
  for (const Round& round : state.rounds) HashRound(round, out);
}

void ExploredWorld::HashRound(const Round& round, Hasher& out) const {
  out.AddBits('r', {round.is_in_doubt, round.is_alone, round.is_settled, round.fences, round.deadline > now_.steady});
  const std::uint64_t only = round.only ? *round.only + 1 : 0;
  out.Add('y',
          (only << 16U) + static_cast<std::uint64_t>(round.conflicts) * 4 + static_cast<std::uint64_t>(round.awaits));
  for (const PendingChange& one : round.changes) HashPending(one, out);
  if (round.awaits == Round::Awaits::kNothing) return;
  if (round.before != nullptr) out.AddBlock(*round.before);
  out.AddBlock(round.after);
  for (const ipam::BlockOffset offset : round.carried) out.Add('k', offset);
}

void ExploredWorld::HashPending(const PendingChange& one, Hasher& out) const {
  const bool is_asked = std::ranges::any_of(ids_, [&](const Asked& asked) { return asked.id == one.id; });
  out.Add('w', one.change.what.index());
  out.AddAttachment(one.change.attachment);
  out.AddBits('.',
              {is_asked,
               one.has_caller,
               one.change.standby.has_value(),
               one.change.fence,
               one.deadline > now_.steady,
               one.due > now_.steady});
}

}  // namespace berth::agent_core
