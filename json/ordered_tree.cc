// SPDX-License-Identifier: Apache-2.0
// Builds the tree: nlohmann's tokenizer calls it for each value.
#include "json/ordered_tree.h"

#include <algorithm>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/ascii.h"

namespace berth {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kParserMessageBytesMax = 200;

// Makes room for a further member. Members are pairs with a constant name, so std::vector cannot move them: if the
// vector grew by itself, it would copy all members with all values in them.
void MakeRoom(Json::object_t& object) {
  if (object.size() < object.capacity()) return;
  Json::object_t larger;
  larger.reserve(object.size() * 2 + 1);
  for (auto& [name, value] : object) larger.emplace_back(name, std::move(value));
  object.swap(larger);
}

// Each callback returns true if the tokenizer has to continue.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::span<const std::string_view> wanted, std::size_t values_max)
      : wanted_(wanted), values_max_(values_max) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values

  bool start_object(std::size_t) override { return Open(Json::value_t::object); }
  bool start_array(std::size_t) override { return Open(Json::value_t::array); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (skipped_levels_ > 0) return true;
    const bool at_top = open_.size() == 1;
    skip_next_ = at_top && std::ranges::none_of(wanted_, [&](auto wanted) { return EqualAnyCase(wanted, name); });
    member_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) override {
    // The message has the form "[json.exception.parse_error.101] parse error at line 1, column 2: what is wrong".
    std::string_view what = exception.what();
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    fault_ = "not valid JSON at byte " + std::to_string(position) + ": " +
             std::string(what.substr(0, kParserMessageBytesMax));
    return false;
  }

  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] Json TakeRoot() { return std::move(root_); }

 private:
  bool Fault(std::string what) {
    fault_ = std::move(what);
    return false;
  }

  bool Count() {
    if (++values_ <= values_max_) return true;
    return Fault("more than " + std::to_string(values_max_) + " values");
  }

  // Skipped values use no memory.
  template <typename Value>
  bool Add(Value&& value) {
    if (skipped_levels_ > 0 || std::exchange(skip_next_, false)) return true;
    if (!Count()) return false;
    Attach(Json(std::forward<Value>(value)));
    return true;
  }

  bool Open(Json::value_t kind) {
    if (++depth_ > kJsonDepthMax) return Fault("nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
    if (skipped_levels_ > 0 || std::exchange(skip_next_, false)) {
      ++skipped_levels_;
      return true;
    }
    if (!Count()) return false;
    open_.push_back(&Attach(Json(kind)));
    return true;
  }

  bool Close() {
    --depth_;
    if (skipped_levels_ > 0) {
      --skipped_levels_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  // Returns a reference that stays valid while the value is open: the parser adds no sibling of an open container
  // before the container is closed.
  Json& Attach(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& container = *open_.back();
    if (container.is_array()) return container.emplace_back(std::move(value));
    auto& object = container.get_ref<Json::object_t&>();
    MakeRoom(object);
    return object.emplace_back(std::move(member_), std::move(value)).second;
  }

  std::span<const std::string_view> wanted_;
  std::vector<Json*> open_;  // objects and arrays that are not closed yet, beginning with the root
  std::string member_;       // name of the member whose value comes next
  Json root_;
  std::string fault_;
  int depth_ = 0;
  int skipped_levels_ = 0;  // number of open containers inside a skipped value
  bool skip_next_ = false;  // whether the next value is skipped
  std::size_t values_max_;
  std::size_t values_ = 0;
};

}  // namespace

const Json* FindMember(const Json& object, std::string_view name, Nulls nulls) {
  for (const auto& [key, value] : std::views::reverse(object.get_ref<const Json::object_t&>())) {
    if (EqualAnyCase(key, name) && (nulls == Nulls::kPresent || !value.is_null())) return &value;
  }
  return nullptr;
}

Expected<Json> ParseJson(std::string_view text, std::span<const std::string_view> wanted, std::size_t values_max) {
  // The tokenizer would skip a byte order mark, and would take NUL for the end of the text.
  if (text.starts_with(kByteOrderMark)) return Fail(ErrorCode::kDecode, "begins with a byte order mark");
  if (text.find('\0') != std::string_view::npos) return Fail(ErrorCode::kDecode, "holds a NUL byte");
  TreeBuilder builder(wanted, values_max);
  if (!Json::sax_parse(text.data(), text.data() + text.size(), &builder))
    return Fail(ErrorCode::kDecode, builder.fault());
  return builder.TakeRoot();
}

}  // namespace berth
