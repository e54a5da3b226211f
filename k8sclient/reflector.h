// SPDX-License-Identifier: Apache-2.0
// Reflector: tells a handler the objects of one collection and their changes, by a LIST and then watches.
//
// The first LIST reads the server's cache (resourceVersion=0) in one answer. With `in_pages` it is a consistent list,
// because only consistent lists have pages. After "410 Gone" the next LIST is not older than the version seen last; if
// the server cannot serve this LIST either, the next LIST is consistent. If a watch breaks, the next watch continues at
// the version seen last, after a request that checks that the server has reached this version. After a failure the
// Reflector waits 0.8 s, doubled up to 30 s, times a random factor of 1 to 2. It goes on at once with the next kind of
// LIST after "410 Gone", and if the server refuses the LIST that is not older than the version seen last. It also waits
// after a consistent LIST that got "410 Gone", and after a watch that got "410 Gone" if no watch has succeeded (got an
// event, or ended in order) since the previous "410 Gone". Rules: client-go, tools/cache/reflector.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "k8sclient/event_reader.h"

namespace berth::k8sclient {

// The thread in Reflector::Run calls the handler. The handler may get the same state of an object twice.
class ReflectorHandler {
 public:
  ReflectorHandler() = default;
  ReflectorHandler(const ReflectorHandler&) = delete;
  ReflectorHandler& operator=(const ReflectorHandler&) = delete;
  virtual ~ReflectorHandler() = default;

  // BeginList: a list begins. If a list begins again, the objects listed so far do not count. Listed follows for each
  // object. EndList: the list was the whole collection at this version, maybe empty. If the handler knows an object
  // that was not in the list, the server has deleted the object.
  virtual void BeginList() = 0;
  virtual void Listed(nlohmann::json object) = 0;
  virtual void EndList(const std::string& resource_version) = 0;
  virtual void Upsert(nlohmann::json object) = 0;
  // object: its last state.
  virtual void Delete(nlohmann::json object) = 0;
  // The handler has got all changes up to this version, which is later than the list's version.
  virtual void Reached(const std::string& /*resource_version*/) {}
  // A request failed, and the Reflector tries again after `wait`; the handler may log and count the error. The
  // handler's objects may be stale. kGone: the server has forgotten the version, so a list follows, and the handler
  // never hears of objects that were created and deleted before the list.
  virtual void Failed(const Error& error, std::chrono::milliseconds wait) = 0;
};

struct ReflectorOptions {
  std::string path;  // path of the collection
  std::string field_selector = {};
  bool metadata_only = false;  // PartialObjectMetadata
  FieldRule fields = {};       // which fields to read in watch events (not in lists)
  bool in_pages = false;       // for a large collection
  // How long the Reflector sleeps after an event for which it had to wait. The events that arrive during the sleep are
  // then read together.
  std::chrono::milliseconds pause{0};
  // Begin with the collection at this version, so that the handler gets all later changes as events. If the server has
  // forgotten this version, or `since` is empty, begin with the present collection.
  std::string since = {};
};

class Reflector {
 public:
  // api, handler and clock must outlive this.
  Reflector(Api& api, ReflectorHandler& handler, Clock& clock, ReflectorOptions options);

  // Returns when stop is requested, and only then. One thread at a time.
  void Run(const std::stop_token& stop);

 private:
  // How fresh the next LIST must be. kNone: no LIST is needed. kCheckVersion: only check that the server has reached
  // resource_version_.
  enum class NextList : std::uint8_t { kNone, kCheckVersion, kAny, kNotOlder, kExact, kConsistent };

  [[nodiscard]] Expected<void> List(const std::stop_token& stop);
  // Checks that the server has reached resource_version_, after a watch that failed or ended too early. After a
  // restored backup, the server may not have reached this version. Such a server would not refuse a watch from this
  // version, but would send no event until it reaches the version. It does refuse CheckVersion's LIST, with kGone.
  [[nodiscard]] Expected<void> CheckVersion(const std::stop_token& stop);
  [[nodiscard]] Expected<void> Watch(const std::stop_token& stop);
  // False if the stream must end; `failure` then says why.
  [[nodiscard]] bool TakeEvent(std::string_view line, Expected<void>& failure);
  void WaitAfter(const Error& error, const std::stop_token& stop);
  void ForgetFailures();

  Api& api_;
  ReflectorHandler& handler_;
  Clock& clock_;
  const ReflectorOptions options_;
  EventReader events_;
  NextList next_list_;
  std::string resource_version_;      // last seen; empty before the first LIST
  int failures_ = 0;                  // in a row
  bool was_watch_forgotten_ = false;  // a watch got "410 Gone", and no watch has succeeded since
};

}  // namespace berth::k8sclient
