// SPDX-License-Identifier: Apache-2.0
// Reflector: keeps a handler up to date about one collection, by a LIST and a WATCH from there on.
//
// The first LIST takes what the server has at hand (resourceVersion=0), in one answer, unless it is to come in pages,
// which only consistent lists have; after "410 Gone" the next is not older than
// what was seen, and if the server cannot serve that either, a consistent one. A broken watch goes on where it ended.
// Failures wait 0.8 s, doubled up to 30 s, times 1 to 2 by chance. Rules: client-go, tools/cache/reflector.go.
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

// Called by the thread in Reflector::Run, one call at a time. May see the same state of an object twice.
class ReflectorHandler {
 public:
  ReflectorHandler() = default;
  ReflectorHandler(const ReflectorHandler&) = delete;
  ReflectorHandler& operator=(const ReflectorHandler&) = delete;
  virtual ~ReflectorHandler() = default;

  // A list begins, or begins anew: what it brought so far does not count. Its objects follow. When it has ended, that
  // was the whole collection at that version, maybe an empty one: what is known and was not in it is gone.
  virtual void BeginList() = 0;
  virtual void Listed(nlohmann::json object) = 0;
  virtual void EndList(const std::string& resource_version) = 0;
  virtual void Upsert(nlohmann::json object) = 0;
  // The object's last state.
  virtual void Delete(nlohmann::json object) = 0;
  // All that happened until that version, later than the list's, was handed over.
  virtual void Reached(const std::string& resource_version);
  // Something failed and is tried again after `wait`: to be logged and counted. What was handed over may be stale.
  // kGone: the server has forgotten the version, so a list comes at once, and what came and went before it is not told.
  virtual void Failed(const Error& error, std::chrono::milliseconds wait) = 0;
};

struct ReflectorOptions {
  std::string path;  // of the collection
  std::string field_selector = {};
  std::string label_selector = {};
  bool metadata_only = false;  // PartialObjectMetadata
  SkippedFields skipped = {};  // of what a watch tells
  ItemFields items = {};       // of what a watch tells
  bool in_pages = false;       // of a large collection
  // After an event that had to be waited for, so that those that follow it are read at one go.
  std::chrono::milliseconds pause{0};
  // Begin with the collection as it was at that version, so that what happened since is told as events. If the server
  // has forgotten that, with what is. Empty: with what is.
  std::string since = {};
  std::chrono::milliseconds list_max = std::chrono::seconds(60);
  std::chrono::milliseconds idle_max = std::chrono::minutes(3);
};

class Reflector {
 public:
  // api, handler and clock must outlive this.
  Reflector(Api& api, ReflectorHandler& handler, Clock& clock, ReflectorOptions options);

  // Returns when stop is requested, and only then. One thread at a time.
  void Run(const std::stop_token& stop);

 private:
  // How fresh the next LIST has to be, or that none is needed, or only a look whether the server has come to the
  // version.
  enum class NextList : std::uint8_t { kNone, kLook, kAny, kNotOlder, kExact, kConsistent };

  [[nodiscard]] static NextList FirstList(const ReflectorOptions& options);
  [[nodiscard]] Expected<void> List(const std::stop_token& stop);
  // A server whose backup was restored has not come to the version that was seen. It refuses no watch from there: it
  // waits, and tells nothing until it has. So after a watch that ended before its time, kGone is asked for.
  [[nodiscard]] Expected<void> Look(const std::stop_token& stop);
  [[nodiscard]] Expected<void> Watch(const std::stop_token& stop);
  // False, with `failure` filled in, if the stream must end.
  [[nodiscard]] bool TakeEvent(std::string_view line, Expected<void>& failure);
  void WaitAfter(const Error& error, const std::stop_token& stop);

  Api& api_;
  ReflectorHandler& handler_;
  Clock& clock_;
  const ReflectorOptions options_;
  EventReader events_;
  NextList next_list_;
  std::string resource_version_;  // last seen; empty before the first LIST
  int failures_ = 0;              // in a row
};

}  // namespace berth::k8sclient
