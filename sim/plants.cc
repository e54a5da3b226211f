// SPDX-License-Identifier: Apache-2.0
// Each plant, and what it takes away.
#include "sim/plants.h"

#include <filesystem>

#include <nlohmann/json.hpp>

namespace berth::sim {
namespace {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

// Removes the files whose path holds that text.
std::function<void(const std::string&)> Removing(std::string text) {
  return [text = std::move(text)](const std::string& folder) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().string().find(text) != std::string::npos)
        found.push_back(entry.path());
    }
    for (const auto& path : found) std::filesystem::remove(path);
  };
}

// A patch that changes nothing but who the agent is.
bool IsFence(const Request& request) {
  if (request.method != Method::kPatch) return false;
  const json body = json::parse(request.body, nullptr, false);
  return body.contains("agent") && !body.contains("allocations") && !body.contains("standby");
}

void ConflictIsSuccess(const Request& request, Network::Answer& answer) {
  constexpr int kConflict = 409;
  if (request.method == Method::kPatch && answer && answer->status == kConflict) {
    json body = json::parse(request.body);
    answer->status = 200;
    answer->body = json{{"metadata", body["metadata"]}}.dump();
  }
}

}  // namespace

const std::vector<Plant>& AllPlants() {
  static const std::vector<Plant> kPlants{
      {.name = "journal-not-replayed",
       .what = "an agent that starts knows nothing of DELs that were answered before",
       .before_start = Removing("/journal")},
      {.name = "notes-ignored",
       .what = "an agent that starts knows nothing of addresses that were handed out and not written",
       .before_start = Removing("/handed-out/")},
      {.name = "intents-not-settled",
       .what = "an agent that starts knows nothing of creations that were under way",
       .before_start = Removing("/intents/")},
      {.name = "no-fence",
       .what = "an agent that starts does not write its blocks: what its predecessor sent may land later",
       .lies = {.swallows = IsFence, .changes = nullptr}},
      {.name = "creator-not-held",
       .what = "a predecessor creates blocks and hands out while its successor reads what there is",
       .free_lock = "/creator.lock"},
      {.name = "conflict-is-success",
       .what = "a patch that met another's is taken for done",
       .lies = {.swallows = nullptr, .changes = ConflictIsSuccess}},
      {.name = "del-overtakes-add",
       .what = "a DEL leaves no mark: an ADD that comes after it is served",
       .now_and_then = Removing("/deleted/")},
      {.name = "finalizer-of-a-block-in-use",
       .what = "a block is given back though it is in use",
       .gives_back_in_use = true},
  };
  return kPlants;
}

}  // namespace berth::sim
