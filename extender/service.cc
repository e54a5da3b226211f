// SPDX-License-Identifier: Apache-2.0
// Answers the verbs filter and prioritize.
#include "extender/service.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "extender/wire.h"

namespace berth::extender {

using http::HttpAnswer;

namespace {

HttpAnswer Refusal(int status, const std::string& why) {
  return {.status = status, .content_type = "text/plain", .body = why + "\n"};
}

// The last segment of the path: the scheduler appends the verb to its urlPrefix.
std::string_view VerbOf(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
}

}  // namespace

HttpAnswer Service::Answer(std::string_view method, std::string_view target, std::string_view body) {
  const SteadyTime begin = parts_.now();
  const std::string_view verb = VerbOf(target);
  Outcome outcome{.answer = Refusal(404, "unknown path; use POST .../filter or .../prioritize"), .result = "refused"};
  std::string_view counted = "other";
  if (verb == "filter" || verb == "prioritize") {
    counted = verb == "filter" ? "filter" : "prioritize";
    if (method != "POST") {
      outcome.answer = Refusal(405, "use POST");
    } else {
      outcome = verb == "filter" ? Filter(body) : Prioritize(body);
    }
  }
  parts_.observe(counted, outcome.result, parts_.now() - begin);
  return std::move(outcome.answer);
}

Service::Outcome Service::Filter(std::string_view body) {
  auto question = ParseQuestion(body);
  if (!question) return {.answer = Refusal(400, question.error().message), .result = "refused"};
  const auto pod = parts_.read_pod(question->pod);
  if (!pod) return {.answer = Refusal(400, pod.error().message), .result = "refused"};
  const Choice choice = parts_.chooser.Filter(*pod, question->names, parts_.now());
  const std::string_view result = !choice.error.empty() ? "error" : choice.nodes.empty() ? "none" : "chosen";
  http::HttpAnswer answer{.body = FilterAnswer(*std::move(question), choice)};
  // Close the connection, because another controller may lead by now. The scheduler keeps connections open, and only a
  // new connection goes to the leader.
  if (!choice.error.empty()) answer.headers = {{"Connection", "close"}};
  return {.answer = std::move(answer), .result = result};
}

Service::Outcome Service::Prioritize(std::string_view body) {
  const auto question = ParseQuestion(body);
  if (!question) return {.answer = Refusal(400, question.error().message), .result = "refused"};
  const auto pod = parts_.read_pod(question->pod);
  if (!pod) return {.answer = Refusal(400, pod.error().message), .result = "refused"};
  const auto scores = parts_.chooser.Scores(*pod, question->names);
  return {.answer = {.body = ScoreAnswer(*question, scores)}, .result = "chosen"};
}

}  // namespace berth::extender
