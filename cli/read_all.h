// SPDX-License-Identifier: Apache-2.0
// ReadAll: reads a consistent list item by item, because a cluster may have 100,000 pods.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "k8sclient/verbs.h"

namespace berth::cli {

// Time limit of one answer, such as a page of a list. A whole list has no limit.
inline constexpr std::chrono::seconds kAnswerMax{60};

// Lists the collection at `path`, and returns the results of `read` for its objects. Appends the errors of `read` to
// `unreadable`. Errors: those of k8sclient::ListEach, with the path.
template <typename Seen>
Expected<std::vector<Seen>> ReadAll(k8sclient::Api& api, std::string_view path,
                                    const std::function<Expected<Seen>(nlohmann::json)>& read,
                                    std::vector<Error>& unreadable) {
  std::vector<Seen> all;
  std::vector<Error> problems;
  const auto begin = [&] {
    all.clear();
    problems.clear();
  };
  const auto take = [&](nlohmann::json item) {
    if (auto seen = read(std::move(item))) {
      all.push_back(*std::move(seen));
    } else {
      problems.push_back(std::move(seen.error()));
    }
  };
  const auto listed =
      k8sclient::ListEach(api, std::string(path), {.page_max = kAnswerMax}, {}, {.begin = begin, .item = take});
  if (!listed) return std::unexpected(listed.error().Within("list " + std::string(path)));
  std::ranges::move(problems, std::back_inserter(unreadable));
  return all;
}

}  // namespace berth::cli
