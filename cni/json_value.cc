// SPDX-License-Identifier: Apache-2.0
// The tree's builder: nlohmann's tokenizer calls it, value by value.
#include "cni/json_value.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include <nlohmann/json.hpp>

#include "cni/ascii.h"

namespace berth::cni {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kParserMessageBytesMax = 200;

// Every event returns whether to go on.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeBuilder(std::span<const std::string_view> wanted) : wanted_(wanted) {}

  bool null() override { return Add({}); }
  bool boolean(bool value) override { return Add({value}); }
  bool number_integer(number_integer_t value) override { return Add({std::int64_t{value}}); }
  bool number_unsigned(number_unsigned_t value) override { return Add({std::uint64_t{value}}); }
  bool number_float(number_float_t value, const string_t&) override { return Add({value}); }
  bool string(string_t& value) override { return Add({std::move(value)}); }
  bool binary(binary_t&) override { return false; }  // JSON text has none

  bool start_object(std::size_t) override { return Open({JsonValue::Object{}}); }
  bool start_array(std::size_t) override { return Open({JsonValue::Array{}}); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (skipped_levels_ > 0) return true;
    const bool at_top = open_.size() == 1;
    skip_next_ = at_top && std::ranges::none_of(wanted_, [&](auto wanted) { return EqualAnyCase(wanted, name); });
    open_.back().member = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what is wrong"
    std::string_view what = exception.what();
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    fault_ = "not valid JSON at byte " + std::to_string(position) + ": " +
             std::string(what.substr(0, kParserMessageBytesMax));
    return false;
  }

  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] JsonValue TakeRoot() { return std::move(root_); }

 private:
  // An object or array that is not closed yet.
  struct Level {
    JsonValue container;
    std::string member;  // name of the member whose value comes next
  };

  bool Fault(std::string what) {
    fault_ = std::move(what);
    return false;
  }

  bool Count() {
    if (++values_ <= kJsonValuesMax) return true;
    return Fault("more than " + std::to_string(kJsonValuesMax) + " values");
  }

  bool Add(JsonValue value) {
    if (skipped_levels_ > 0) return true;
    if (std::exchange(skip_next_, false)) return true;
    if (!Count()) return false;
    Attach(std::move(value));
    return true;
  }

  bool Open(JsonValue container) {
    if (++depth_ > kJsonDepthMax) return Fault("nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
    if (skipped_levels_ > 0 || std::exchange(skip_next_, false)) {
      ++skipped_levels_;
      return true;
    }
    if (!Count()) return false;
    open_.push_back({.container = std::move(container), .member = {}});
    return true;
  }

  bool Close() {
    --depth_;
    if (skipped_levels_ > 0) {
      --skipped_levels_;
      return true;
    }
    JsonValue closed = std::move(open_.back().container);
    open_.pop_back();
    Attach(std::move(closed));
    return true;
  }

  void Attach(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* const array = std::get_if<JsonValue::Array>(&open_.back().container.value)) {
      array->push_back(std::move(value));
    } else {
      std::get<JsonValue::Object>(open_.back().container.value)
          .push_back({.name = std::move(open_.back().member), .value = std::move(value)});
    }
  }

  std::span<const std::string_view> wanted_;
  std::vector<Level> open_;
  JsonValue root_;
  std::string fault_;
  int depth_ = 0;
  int skipped_levels_ = 0;  // open containers inside a value that is skipped
  bool skip_next_ = false;  // the value that comes next is skipped
  std::size_t values_ = 0;
};

}  // namespace

const JsonValue* FindMember(const JsonValue::Object& object, std::string_view name, Nulls nulls) {
  for (const JsonMember& member : std::views::reverse(object)) {
    if (EqualAnyCase(member.name, name) && (nulls == Nulls::kPresent || !member.value.IsNull())) return &member.value;
  }
  return nullptr;
}

std::string_view KindOf(const JsonValue& value) {
  if (value.IsNull()) return "null";
  if (value.As<bool>() != nullptr) return "a boolean";
  if (value.As<std::string>() != nullptr) return "a string";
  if (value.As<JsonValue::Array>() != nullptr) return "a list";
  if (value.As<JsonValue::Object>() != nullptr) return "an object";
  return "a number";
}

Expected<JsonValue> ParseJson(std::string_view text, std::span<const std::string_view> wanted) {
  // The tokenizer would skip the one and take the other for the end of the text.
  if (text.starts_with(kByteOrderMark)) return Fail(ErrorCode::kDecode, "begins with a byte order mark");
  if (text.find('\0') != std::string_view::npos) return Fail(ErrorCode::kDecode, "holds a NUL byte");
  TreeBuilder builder(wanted);
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder))
    return Fail(ErrorCode::kDecode, builder.fault());
  return builder.TakeRoot();
}

}  // namespace berth::cni
