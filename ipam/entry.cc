// SPDX-License-Identifier: Apache-2.0
// Parses and prints entries of blocks.
#include "ipam/entry.h"

#include <array>
#include <charconv>

namespace berth::ipam {

namespace {

constexpr std::string_view kUnknownPart = "-";
constexpr std::size_t kHeldPartsMin = 5;  // pod, uid, attachment, i=, t=

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._:,+@-").find(c) != std::string_view::npos;
}

std::string Encode(std::string_view part) {
  if (part.empty()) return std::string(kUnknownPart);
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(part.size());
  for (const char c : part) {
    // Encode the value "-" too, because "-" alone stands for "unknown".
    if (IsPlain(c) && part != kUnknownPart) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += kHex[byte >> 4U];
    encoded += kHex[byte & 0xFU];
  }
  return encoded;
}

std::optional<unsigned> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10U;
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10U;
  return std::nullopt;
}

std::optional<std::string> Decode(std::string_view part) {
  if (part == kUnknownPart) return std::string();
  std::string decoded;
  decoded.reserve(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      decoded += part[i];
      continue;
    }
    if (i + 2 >= part.size()) return std::nullopt;
    const auto high = HexDigit(part[i + 1]);
    const auto low = HexDigit(part[i + 2]);
    if (!high || !low) return std::nullopt;
    decoded += static_cast<char>((*high << 4U) | *low);
    i += 2;
  }
  return decoded;
}

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t blank = text.find(' ');
    parts.push_back(text.substr(0, blank));
    if (blank == std::string_view::npos) return parts;
    text.remove_prefix(blank + 1);
  }
}

bool IsAttachment(std::string_view text) {
  constexpr std::size_t kLength = kAttachmentNetworkLength + 1 + 16;
  if (text.size() != kLength || text[kAttachmentNetworkLength] != '-') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i != kAttachmentNetworkLength && !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

// Decodes the part; returns it unchanged if its encoding is wrong.
std::string DecodeOrKeep(std::string_view part) { return Decode(part).value_or(std::string(part)); }

// Parses one "k=v" into the entry. False: this version does not understand it.
bool ReadOption(std::string_view part, HeldEntry& entry) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);
  const auto number = ParseInteger(value);
  auto text = Decode(value);
  if (key == "t" || key == "c") {
    if (!number) return false;
    (key == "t" ? entry.since_ms : entry.cooldown_s) = *number;
    return true;
  }
  if (key == "i" || key == "n" || key == "ns") {
    if (!text) return false;
    (key == "i" ? entry.interface : key == "n" ? entry.node : entry.netns) = std::move(*text);
    return true;
  }
  if (key != "s" || value != "1") return false;
  entry.has_shared_sibling = true;
  return true;
}

std::optional<HeldEntry> ParseHeld(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text);
  if (parts.size() < kHeldPartsMin || !IsAttachment(parts[2])) return std::nullopt;
  const std::size_t slash = parts[0].find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  HeldEntry entry;
  entry.pod_namespace = DecodeOrKeep(parts[0].substr(0, slash));
  entry.pod = DecodeOrKeep(parts[0].substr(slash + 1));
  entry.uid = DecodeOrKeep(parts[1]);
  entry.attachment = parts[2];
  for (std::size_t i = 3; i < parts.size(); ++i) {
    if (!ReadOption(parts[i], entry)) entry.unknown.emplace_back(parts[i]);
  }
  return entry;
}

std::optional<CoolingEntry> ParseCooling(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text);
  if (parts.size() < 2 || parts[0] != "~" || !parts[1].starts_with("t=")) return std::nullopt;
  const auto until = ParseInteger(parts[1].substr(2));
  if (!until) return std::nullopt;
  CoolingEntry entry{.until_ms = *until, .forget = {}};
  if (parts.size() < 3 || !parts[2].starts_with("f=")) return entry;
  entry.forget = parts[2].substr(2);
  const std::size_t freed = text.find(' ', text.find(" f=") + 1);
  if (freed != std::string_view::npos) entry.freed = text.substr(freed + 1);
  return entry;
}

std::string Format(const HeldEntry& entry) {
  std::string text = Encode(entry.pod_namespace) + '/' + Encode(entry.pod) + ' ' + Encode(entry.uid) + ' ' +
                     entry.attachment + " i=" + Encode(entry.interface) + " t=" + std::to_string(entry.since_ms);
  if (!entry.node.empty()) text += " n=" + Encode(entry.node);
  if (entry.cooldown_s > 0) text += " c=" + std::to_string(entry.cooldown_s);
  if (entry.has_shared_sibling) text += " s=1";
  if (!entry.netns.empty()) text += " ns=" + Encode(entry.netns);
  for (const std::string& part : entry.unknown) text += ' ' + part;
  return text;
}

std::string Format(const CoolingEntry& entry) {
  std::string text = "~ t=" + std::to_string(entry.until_ms);
  if (entry.forget.empty()) return text;
  text += " f=" + entry.forget;
  if (!entry.freed.empty()) text += ' ' + entry.freed;
  return text;
}

std::string Format(const ReservedEntry& entry) { return "! " + Encode(entry.reservation); }

std::string Format(const OpaqueEntry& entry) { return entry.text; }

}  // namespace

Entry ParseEntry(std::string_view text) {
  if (text.starts_with("! ")) {
    if (auto reservation = Decode(text.substr(2))) return ReservedEntry{.reservation = std::move(*reservation)};
  } else if (text.starts_with("~ ")) {
    if (auto cooling = ParseCooling(text)) return *std::move(cooling);
  } else if (auto held = ParseHeld(text)) {
    return *std::move(held);
  }
  return OpaqueEntry{.text = std::string(text)};
}

Expected<std::string> FormatEntry(const Entry& entry) {
  std::string text = std::visit([](const auto& e) { return Format(e); }, entry);
  if (text.size() > kEntryLengthMax) {
    return Fail(ErrorCode::kInvalid,
                "the entry of the address would have " + std::to_string(text.size()) + " bytes, at most " +
                    std::to_string(kEntryLengthMax) + " are allowed",
                "shorten the pod's name, namespace or UID in CNI_ARGS, or the interface's name");
  }
  return text;
}

std::string_view AttachmentOf(std::string_view entry_text) {
  if (entry_text.starts_with("! ") || entry_text.starts_with("~ ")) return {};
  const std::size_t first = entry_text.find(' ');
  if (first == std::string_view::npos) return {};
  const std::size_t second = entry_text.find(' ', first + 1);
  if (second == std::string_view::npos) return {};
  const std::string_view third = entry_text.substr(second + 1, entry_text.find(' ', second + 1) - second - 1);
  return IsAttachment(third) ? third : std::string_view();
}

std::string FreedMark(const HeldEntry& held, const std::string& text, bool agent_looks, std::int64_t until_ms) {
  CoolingEntry mark{.until_ms = until_ms, .forget = held.attachment};
  if (agent_looks && !held.netns.empty()) mark.freed = text;
  auto marked = FormatEntry(mark);
  if (marked) return *std::move(marked);
  mark.freed.clear();
  return Format(mark);
}

std::optional<FreedByController> FreedUnder(std::string_view entry_text) {
  if (!entry_text.starts_with("~ ")) return std::nullopt;
  auto cooling = ParseCooling(entry_text);
  if (!cooling || cooling->freed.empty()) return std::nullopt;
  Entry freed = ParseEntry(cooling->freed);
  auto* const held = std::get_if<HeldEntry>(&freed);
  if (held == nullptr || held->attachment != cooling->forget || held->netns.empty()) return std::nullopt;
  return FreedByController{.text = std::move(cooling->freed), .entry = std::move(*held)};
}

std::optional<std::int64_t> CoolingUntil(std::string_view entry_text, std::int64_t now_ms) {
  if (!entry_text.starts_with("~ ")) return std::nullopt;
  const auto cooling = ParseCooling(entry_text);
  if (!cooling) return std::nullopt;
  return cooling->until_ms > now_ms + kCoolingAheadMaxMs ? 0 : cooling->until_ms;
}

}  // namespace berth::ipam
