// SPDX-License-Identifier: Apache-2.0
// Makes lies for answers, lines of watches and requests.
#include "sim/lies.h"

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/scheduler.h"

namespace berth::sim {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

namespace {

// Tells the lies (in answers and in lines of watches) only to the processes for which `are_lied_to` is true.
Network::Lies ToThose(const Network::Lies& lies, const std::function<bool(const std::string& process)>& are_lied_to) {
  const auto is_one = [are_lied_to] { return are_lied_to(CurrentProcess()->name); };
  return {.changes =
              [=, lie = lies.changes](const Request& request, Network::Answer& answer) {
                if (is_one()) lie(request, answer);
              },
          .tells = [=, lie = lies.tells](std::string& line) { return !is_one() || lie(line); }};
}
bool IsController(const std::string& process) { return process.starts_with("controller"); }

}  // namespace

std::function<void(Request&)> Without(Method method, const char* place) {
  return [method, pointer = json::json_pointer(place)](Request& request) {
    if (request.method != method) return;
    json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    if (!body.is_object() || !body.contains(pointer)) return;
    body[pointer.parent_pointer()].erase(pointer.back());
    request.body = body.dump();
  };
}

std::function<void(Request&)> OfKind(std::string_view path, std::function<void(Request&)> rewrite) {
  return [path = std::string(path), rewrite = std::move(rewrite)](Request& request) {
    if (request.path.starts_with(path)) rewrite(request);
  };
}

Network::Lies ChangingText(std::function<void(std::string& text)> change) {
  return {.changes =
              [change](const Request&, Network::Answer& answer) {
                if (answer) change(answer->body);
              },
          .tells =
              [change = std::move(change)](std::string& line) {
                change(line);
                return true;
              }};
}

Network::Lies Replacing(std::vector<std::pair<std::string, std::string>> pairs) {
  return ChangingText([pairs = std::move(pairs)](std::string& text) {
    for (const auto& [from, to] : pairs) {
      for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
      }
    }
  });
}

Network::Lies Replacing(const std::string& from, const std::string& to) {
  return Replacing(std::vector{std::pair(from, to)});
}

Network::Lies ToControllers(const Network::Lies& lies) { return ToThose(lies, IsController); }
Network::Lies ToNodes(const Network::Lies& lies) {
  return ToThose(lies, [](const std::string& process) { return !IsController(process); });
}

}  // namespace berth::sim
