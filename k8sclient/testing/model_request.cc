// SPDX-License-Identifier: Apache-2.0
// Parses paths, applies selectors, and writes refusals.
#include "k8sclient/testing/model_request.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "k8sclient/testing/model_schema.h"

namespace berth::k8sclient::testing {

using nlohmann::json;

namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

struct Term {
  std::string field;
  bool is_equal = true;
  std::string value;
};

std::vector<Term> TermsOf(const std::string& selector) {
  std::vector<Term> terms;
  if (selector.empty()) return terms;
  for (const std::string& text : Split(selector, ',')) {
    const std::size_t equals = text.find('=');
    const bool is_equal = equals == 0 || text[equals - 1] != '!';
    terms.push_back({.field = text.substr(0, is_equal ? equals : equals - 1),
                     .is_equal = is_equal,
                     .value = text.substr(equals + 1)});
  }
  return terms;
}

std::string ValueAt(const json& object, const std::string& field) {
  const json* value = &object;
  for (const std::string& part : Split(field, '.')) {
    const auto found = value->find(part);
    if (found == value->end()) return {};
    value = &*found;
  }
  return value->is_string() ? value->get<std::string>() : value->dump();
}

}  // namespace

Target ParseTarget(const std::string& path) {
  std::vector<std::string> parts = Split(path, '/');
  // "", "api", version, or "", "apis", group, version
  const std::size_t head = parts.size() > 1 && parts[1] == "apis" ? 4 : 3;
  parts.resize(std::max(parts.size(), head + 1));
  Target target;
  if (head == 4) target.group = parts[2];
  for (std::size_t i = 1; i < head; ++i) target.collection += "/" + parts[i];
  std::size_t at = head;
  if (parts[at] == "namespaces" && parts.size() > at + 2) {
    target.name_space = parts[at + 1];
    at += 2;
  }
  target.plural = parts[at];
  target.collection += "/" + target.plural;
  if (parts.size() > at + 1) target.name = parts[at + 1];
  if (parts.size() > at + 2) target.subresource = parts[at + 2];
  return target;
}

bool IsIn(const Target& target, const json& object) {
  return target.name_space.empty() || object.at("metadata").value("namespace", "") == target.name_space;
}

std::string KeyOf(const json& object) {
  const json& metadata = object.at("metadata");
  return KeyOf(metadata.value("namespace", ""), metadata.at("name").get<std::string>());
}

Response ToResponse(const Refused& refused, const Target& target) {
  json details = {{"name", target.name}, {"group", target.group}, {"kind", target.plural}};
  if (!refused.field.empty() || !refused.cause.empty()) {
    const std::string cause = refused.cause.empty() ? "FieldValueInvalid" : refused.cause;
    details["causes"] = {{{"reason", cause}, {"message", refused.message}, {"field", refused.field}}};
  }
  const std::string message = target.name.empty() ? refused.message : target.name + ": " + refused.message;
  const json status = {{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"status", "Failure"},
                       {"code", refused.status},
                       {"reason", refused.reason},
                       {"message", message},
                       {"details", std::move(details)}};
  return {.status = refused.status, .body = status.dump()};
}

std::string Parameter(const Request& request, const std::string& key) {
  for (const auto& [name, value] : request.query) {
    if (name == key) return value;
  }
  return {};
}

std::optional<std::uint64_t> ToVersion(const std::string& text) {
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return version;
}

bool IsSelected(const json& object, const std::string& selector) {
  for (const Term& term : TermsOf(selector)) {
    if ((ValueAt(object, term.field) == term.value) != term.is_equal) return false;
  }
  return true;
}

std::string UnselectableField(const Target& target, const std::string& selector) {
  const ModelSchema& schema = ModelSchema::Of(target.collection);
  for (const Term& term : TermsOf(selector)) {
    if (term.field.starts_with("metadata.") || schema.IsSelectable(term.field)) continue;
    return term.field;
  }
  return {};
}

json AcceptedForm(const Request& request, const json& object) {
  if (!request.accept.starts_with("application/json;as=PartialObjectMetadata")) return object;
  return {{"kind", "PartialObjectMetadata"}, {"apiVersion", "meta.k8s.io/v1"}, {"metadata", object.at("metadata")}};
}

}  // namespace berth::k8sclient::testing
