// SPDX-License-Identifier: Apache-2.0
// Parses line by line: keyword, blanks, values.
#include "cni/resolv_conf.h"

#include <string>
#include <vector>

namespace berth::cni {
namespace {

std::vector<std::string> Words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks)) {
    line.remove_prefix(at);
    const std::size_t length = line.find_first_of(kBlanks);
    words.emplace_back(line.substr(0, length));
    line.remove_prefix(words.back().size());
  }
  return words;
}

}  // namespace

ipam::Dns ParseResolvConf(std::string_view text) {
  ipam::Dns dns;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
    const std::vector<std::string> words = Words(line);
    if (words.size() < 2 || words[0].front() == '#' || words[0].front() == ';') continue;
    const auto values = words.begin() + 1;
    if (words[0] == "nameserver") {
      dns.nameservers.push_back(*values);
    } else if (words[0] == "domain") {
      dns.domain = *values;
    } else if (words[0] == "search") {
      dns.search.insert(dns.search.end(), values, words.end());
    } else if (words[0] == "options") {
      dns.options.insert(dns.options.end(), values, words.end());
    }
  }
  return dns;
}

}  // namespace berth::cni
