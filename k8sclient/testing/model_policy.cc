// SPDX-License-Identifier: Apache-2.0
// The expressions of the policy, in the order of its file and with its names. Patterns are matched by hand: the
// simulator's threads have small stacks, and std::regex needs much for a long entry.
#include "k8sclient/testing/model_policy.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

constexpr const char* kInUse = "ipam.berth.dev/in-use";

bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsHex(std::string_view text, std::size_t length) {
  return text.size() == length &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsAttachment(std::string_view text) {
  constexpr std::size_t kNetwork = 12;
  constexpr std::size_t kIdentity = 16;
  return text.size() == kNetwork + 1 + kIdentity && IsHex(text.substr(0, kNetwork), kNetwork) &&
         text[kNetwork] == '-' && IsHex(text.substr(kNetwork + 1), kIdentity);
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = text.find(' '); at != std::string_view::npos; at = text.find(' ')) {
    words.push_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  words.push_back(text);
  return words;
}

bool Rests(const std::string& entry) { return entry.starts_with("~ t="); }
bool IsReserved(const std::string& entry) { return entry.starts_with("! "); }

// ^[^ ]* [^ ]* [0-9a-f]{12}-[0-9a-f]{16}( |$), and begins with neither "~ " nor "! "
bool IsHeld(const std::string& entry) {
  const auto words = Words(entry);
  return words.size() > 2 && words[0] != "~" && words[0] != "!" && IsAttachment(words[2]);
}

// ^[^ ~!/]+/\S+ \S+ [\da-f]{12}-[\da-f]{16} i=\S+ t=\d+ followed by a blank
bool IsPlainHeld(const std::string& entry) {
  const auto words = Words(entry);
  constexpr std::size_t kUntilTime = 5;
  if (words.size() <= kUntilTime) return false;
  const std::size_t slash = words[0].find_first_of("~!/");
  const bool names_pod =
      slash != std::string_view::npos && slash > 0 && words[0][slash] == '/' && words[0].size() > slash + 1;
  return names_pod && !words[1].empty() && IsAttachment(words[2]) && words[3].starts_with("i=") &&
         words[3].size() > 2 && words[4].starts_with("t=") && IsDigits(words[4].substr(2));
}

// ^~ t=[0-9]+ f=[0-9a-f]{12}-[0-9a-f]{16}( |$), and `before` contains the attachment after f=
bool IsTrace(const std::string& entry, const std::string& before) {
  const auto words = Words(entry);
  return words.size() > 2 && words[0] == "~" && words[1].starts_with("t=") && IsDigits(words[1].substr(2)) &&
         words[2].starts_with("f=") && IsAttachment(words[2].substr(2)) && before.contains(words[2].substr(2));
}

// The parts of one write, by the names of the policy's variables.
class Write {
 public:
  Write(const Writer& writer, const json& before, const json& after)
      : writer_(writer),
        before_(before),
        after_(after),
        owner_((before.is_null() ? after : before).at("spec").value("node", std::string())),
        mark_(" n=" + writer.node + " ") {}

  [[nodiscard]] std::optional<std::string> Refusal() const {
    if (MayWriteAll() || IsNoChange()) return OfEverybody();
    const bool is_its_own = owner_ == writer_.node || owner_.empty();
    if (writer_.node.empty() || !is_its_own || is_deletion()) {
      return "a node may create and change only its own IPBlocks and Shared ones, and may delete none: spec.node must "
             "be "
             "absent or the node that the credentials name. Credentials that name no node need the verb override";
    }
    if (!(is_creation() ? IsPlain() : KeepsMetadata())) {
      return "a node must give a new IPBlock the finalizer ipam.berth.dev/in-use and no other metadata, and may not "
             "change finalizers, labels, annotations, ownerReferences or generateName";
    }
    const bool keeps_agent =
        is_creation() ? !after_.contains("agent") && !after_.contains("standby") : IsKept("agent") && IsKept("standby");
    if (owner_.empty() && !(keeps_agent && OnlyOwnEntries())) {
      return "in a Shared IPBlock a node may write only entries with its own n=, may replace only its own entries and "
             "cooling ones (~), and may not write agent or standby";
    }
    return OfEverybody();
  }

 private:
  [[nodiscard]] bool is_creation() const { return before_.is_null(); }
  [[nodiscard]] bool is_deletion() const { return after_.is_null(); }
  [[nodiscard]] bool MayWriteAll() const { return writer_.is_controller || writer_.may_override; }
  [[nodiscard]] bool IsNoChange() const { return before_ == after_; }
  [[nodiscard]] bool IsKept(const char* field) const {
    return before_.value(field, json()) == after_.value(field, json());
  }

  [[nodiscard]] static json Metadata(const json& block, const char* field) {
    return block.at("metadata").value(field, json());
  }
  [[nodiscard]] static bool IsInUse(const json& block) {
    const json finalizers = Metadata(block, "finalizers");
    return std::ranges::find(finalizers, json(kInUse)) != finalizers.end();
  }
  [[nodiscard]] static bool IsOneOf(const json& allocations, const std::string& offset, const std::string& text) {
    const auto found = allocations.find(offset);
    return found != allocations.end() && *found == text;
  }
  template <typename Each>
  [[nodiscard]] static bool All(const json& block, const Each& each) {
    const json& entries = block.at("allocations");
    for (const auto& [offset, text] : entries.items()) {
      if (!each(offset, text.template get_ref<const std::string&>())) return false;
    }
    return true;
  }

  [[nodiscard]] bool IsPlain() const {
    return Metadata(after_, "finalizers") == json::array({kInUse}) &&
           std::ranges::all_of(std::vector{"labels", "annotations", "ownerReferences", "generateName"},
                               [&](const char* field) { return Metadata(after_, field).is_null(); });
  }
  [[nodiscard]] bool KeepsMetadata() const {
    return std::ranges::all_of(std::vector{"finalizers", "labels", "annotations", "ownerReferences", "generateName"},
                               [&](const char* field) { return Metadata(before_, field) == Metadata(after_, field); });
  }
  [[nodiscard]] bool IsMarked(const std::string& text) const { return (text + " ").contains(mark_); }
  [[nodiscard]] bool OnlyOwnEntries() const {
    static const json kNone = json::object();
    const json& were = is_creation() ? kNone : before_.at("allocations");
    const json& are = after_.at("allocations");
    const bool gives_up_own = is_creation() || All(before_, [&](const auto& offset, const auto& text) {
                                return IsOneOf(are, offset, text) || Rests(text) || IsMarked(text);
                              });
    constexpr std::size_t kDigitsMax = 18;
    const auto is_rest = [&](const auto& offset, const auto& text) {
      const std::string_view digits = std::string_view(text).substr(std::min<std::size_t>(text.size(), 4));
      return Rests(text) && IsDigits(digits) && digits.size() <= kDigitsMax && were.contains(offset) &&
             IsMarked(were.at(offset).template get_ref<const std::string&>());
    };
    return !writer_.node.empty() && gives_up_own && All(after_, [&](const auto& offset, const auto& text) {
      return IsOneOf(were, offset, text) ||
             (IsMarked(text) && text.find(" n=") == text.rfind(" n=") && IsPlainHeld(text)) || is_rest(offset, text);
    });
  }

  // The validations that apply to nodes and to the controller. Only the right to override exempts a writer from them.
  [[nodiscard]] std::optional<std::string> OfEverybody() const {
    if (writer_.may_override) return std::nullopt;
    if (is_creation()) {
      const bool is_reserved = All(after_, [](const auto& /*offset*/, const auto& text) { return IsReserved(text); });
      const bool is_controllers =
          !owner_.empty() && IsPlain() && !after_.contains("agent") && !after_.contains("standby") && is_reserved;
      if (!writer_.is_controller || is_controllers) return std::nullopt;
      return "berth-controller may create an IPBlock only for a node (spec.node): with no entries except reserved ones";
    }
    const bool is_protected = IsInUse(is_deletion() ? before_ : after_) || (!is_deletion() && !IsInUse(before_));
    const auto is_free = [](const auto& /*offset*/, const auto& text) { return Rests(text) || IsReserved(text); };
    if (!is_protected && !All(before_, is_free)) {
      return "an IPBlock with held entries must keep the finalizer ipam.berth.dev/in-use, and may not be deleted "
             "without "
             "it";
    }
    const bool is_its_node = !writer_.is_controller && !writer_.node.empty() &&
                             (owner_ == writer_.node || (owner_.empty() && !is_deletion() && OnlyOwnEntries()));
    if (is_deletion() || is_its_node || All(before_, [&](const auto& offset, const auto& text) {
          const json& are = after_.at("allocations");
          return IsOneOf(are, offset, text) || !IsHeld(text) ||
                 (are.contains(offset) && IsTrace(are.at(offset).template get_ref<const std::string&>(), text));
        })) {
      return std::nullopt;
    }
    return "only its own node may remove a held entry without a trace: others must replace it by \"~ t=<until> f=<its "
           "attachment>\", so that the node forgets it too";
  }

  const Writer& writer_;
  const json& before_;
  const json& after_;
  const std::string owner_;
  const std::string mark_;
};

}  // namespace

Writer WriterOf(const std::string& who) {
  constexpr std::string_view kNode = "node ";
  if (who.starts_with(kNode)) return {.node = who.substr(kNode.size())};
  if (who == "controller") return {.is_controller = true};
  return {.may_override = who != "unbound"};
}

std::optional<std::string> RefusalByPolicy(const Writer& writer, const json& before, const json& after) {
  return Write(writer, before, after).Refusal();
}

}  // namespace berth::k8sclient::testing
