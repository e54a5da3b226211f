// SPDX-License-Identifier: Apache-2.0
// Runs a reflector in a thread.
#include "agent/watch_thread.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "crds/object_meta.h"

namespace berth::agent {

using nlohmann::json;

class WatchHandler final : public k8sclient::ReflectorHandler {
 public:
  WatchHandler(std::string path, WatchActions actions) : path_(std::move(path)), actions_(std::move(actions)) {}

  void BeginList() override { names_.clear(); }
  void Listed(json object) override {
    names_.insert(crds::NameOf(object));
    actions_.upsert(std::move(object));
  }
  void EndList(const std::string& /*resource_version*/) override { actions_.listed(names_); }
  void Upsert(json object) override { actions_.upsert(std::move(object)); }
  void Delete(json object) override { actions_.remove(std::move(object)); }
  void Failed(const Error& error, std::chrono::milliseconds wait) override {
    spdlog::warn("watch failed path={} code={} err={} details={} again_in_ms={}",
                 path_,
                 berth::ToString(error.code),
                 Quoted(error.message),
                 Quoted(error.details),
                 wait.count());
  }

 private:
  std::string path_;
  WatchActions actions_;
  std::set<std::string> names_;  // names of the list that is being received
};

WatchThread::WatchThread(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options,
                         WatchActions actions)
    : handler_(std::make_unique<WatchHandler>(options.path, std::move(actions))),
      reflector_(api, *handler_, clock, std::move(options)),
      thread_([this](const std::stop_token& stop) { reflector_.Run(stop); }) {}

WatchThread::~WatchThread() = default;

void ListOnce(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options, WatchActions actions,
              const std::stop_token& stop) {
  std::stop_source listed;
  const std::stop_callback stopped(stop, [&listed] { listed.request_stop(); });
  actions.listed = [&listed, take = std::move(actions.listed)](const std::set<std::string>& names) {
    take(names);
    listed.request_stop();
  };
  WatchHandler handler(options.path, std::move(actions));
  k8sclient::Reflector(api, handler, clock, std::move(options)).Run(listed.get_token());
}

}  // namespace berth::agent
