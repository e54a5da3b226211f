// SPDX-License-Identifier: Apache-2.0
// Mutator: changes bytes, pieces and words.
#include "fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace berth::fuzz {

namespace {

constexpr std::size_t kWordsMax = 10'000;
constexpr std::size_t kPieceBytesMax = 64;
constexpr std::size_t kChangesMax = 8;

// Texts that often break readers.
constexpr std::array<std::string_view, 24> kOdd = {"null", "true", "-1",   "0",  "1e999", "18446744073709551616",
                                                   "{}",   "[]",   "\"\"", "\"", "\\",    "\\u0000",
                                                   "{",    "}",    "[",    "]",  ":",     ",",
                                                   "\xff", "\r\n", "\t",   "..", "/0",    "::"};

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace

void Mutator::Learn(const std::string& input) {
  std::string word;
  for (const char c : input + " ") {
    if (IsWordByte(c)) {
      word += c;
    } else if (!word.empty()) {
      if (words_.size() < kWordsMax && word.size() <= kPieceBytesMax) words_.push_back(word);
      word.clear();
    }
  }
}

void Mutator::Change(std::string& input, const std::string& other) {
  const std::size_t at = Below(input.size() + 1);
  const std::size_t length = std::min(Below(kPieceBytesMax) + 1, input.size() - at);
  switch (Below(8)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(static_cast<unsigned char>(input[at]) ^ (1U << Below(8)));
      break;
    case 1:
      input.insert(at, 1, static_cast<char>(Below(256)));
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, input.substr(at, length));
      break;
    case 4:
      input.insert(at, kOdd.at(Below(kOdd.size())));
      break;
    case 5:
      if (!words_.empty()) input.replace(at, length, words_[Below(words_.size())]);
      break;
    case 6: {  // repeat one piece
      const std::string piece = input.substr(at, std::min<std::size_t>(length, 8));
      for (std::size_t i = Below(300); i > 0; --i) input.insert(at, piece);
      break;
    }
    default: {
      const std::size_t from = Below(other.size() + 1);
      input.replace(at, length, other.substr(from, Below(kPieceBytesMax) + 1));
      break;
    }
  }
}

std::string Mutator::Next(const std::vector<std::string>& inputs) {
  std::string input = inputs[Below(inputs.size())];
  for (std::size_t changes = Below(kChangesMax) + 1; changes > 0; --changes) {
    Change(input, inputs[Below(inputs.size())]);
  }
  if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
  return input;
}

}  // namespace berth::fuzz
