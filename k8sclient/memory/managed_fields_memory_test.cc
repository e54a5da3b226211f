// SPDX-License-Identifier: Apache-2.0
// How much memory managedFields need. A node's token may give a Shared block managedFields of 1.4 MB, and every agent
// reads the block. This program counts what operator new allocates.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <stop_token>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/object_reader.h"
#include "k8sclient/reflector.h"
#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/scripted_api.h"
#include "k8sclient/verbs.h"

namespace {

std::atomic<std::size_t> used_bytes = 0;
std::atomic<std::size_t> most_bytes = 0;

void Free(void* memory) {
  used_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// Not inline: otherwise the compiler would see std::free of a pointer from operator new, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  const std::size_t used = used_bytes += malloc_usable_size(memory);
  if (used > most_bytes) most_bytes = used;
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { Free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept { Free(memory); }

namespace berth::k8sclient {
namespace {

using nlohmann::json;
using testing::ScriptedApi;

constexpr std::size_t kManagedBytes = 1'400'000;
constexpr std::size_t kKeptMax = 10'000;

std::string SharedBlock() {
  std::string fields = R"({"f:allocations":{)";
  for (int i = 0; fields.size() < kManagedBytes; ++i) {
    fields += (i == 0 ? "\"f:" : ",\"f:") + std::to_string(i) + "\":{}";
  }
  fields += "}}";
  return R"({"metadata":{"managedFields":[{"fieldsType":"FieldsV1","fieldsV1":)" + fields +
         R"(,"manager":"x"}],"name":"10.55.0.0-24"},"spec":{"node":""}})";
}

// Keeps the object of the first event, and stops the Reflector.
class FirstEvent final : public ReflectorHandler {
 public:
  explicit FirstEvent(std::stop_source& stop) : stop_(stop) {}
  void BeginList() override {}
  void Listed(json /*object*/) override {}
  void EndList(const std::string& /*resource_version*/) override {}
  void Upsert(json changed) override {
    object = std::move(changed);
    stop_.request_stop();
  }
  void Delete(json /*object*/) override {}
  void Failed(const Error& error, std::chrono::milliseconds /*wait*/) override {
    ADD_FAILURE() << error.message;
    stop_.request_stop();
  }

  json object;

 private:
  std::stop_source& stop_;
};

json ReadFromList(const std::string& block) {
  ScriptedApi api;
  api.on_call = [&block](const Request&) {
    return Response{.status = 200, .body = R"({"metadata":{"resourceVersion":"7"},"items":[)" + block + "]}"};
  };
  json read;
  const auto version = ListEach(api, "/ipblocks", {}, {}, {.item = [&read](json item) { read = std::move(item); }});
  EXPECT_TRUE(version.has_value());
  return read;
}

json ReadFromGet(const std::string& block) {
  ScriptedApi api;
  api.on_call = [&block](const Request&) { return Response{.status = 200, .body = block}; };
  return Get(api, "/ipblocks/10.55.0.0-24", CallOptions{}).value();
}

json ReadFromWatch(const std::string& block) {
  ScriptedApi api;
  api.on_call = [](const Request&) {
    return Response{.status = 200, .body = R"({"metadata":{"resourceVersion":"7"},"items":[]})"};
  };
  api.on_watch = [&block](const Request&, const WatchOptions&, const WatchSink& sink) {
    sink(R"({"type":"MODIFIED","object":)" + block + "}");
    return Response{.status = 200};
  };
  std::stop_source stop;
  FirstEvent handler(stop);
  testing::FakeClock clock;
  Reflector(api, handler, clock, {.path = "/ipblocks"}).Run(stop.get_token());
  return handler.object;
}

struct Reader {
  const char* name;
  json (*read)(const std::string& block);
  std::size_t bytes_max;  // copies of the text, and the index of the watch's parser
};

class ManagedFieldsMemory : public ::testing::TestWithParam<Reader> {};

TEST_P(ManagedFieldsMemory, AreReadWithoutMemoryForTheirValues) {
  const std::string block = SharedBlock();
  const std::size_t before = used_bytes;
  most_bytes = before;
  const json object = GetParam().read(block);
  const std::size_t most = most_bytes - before;
  EXPECT_LT(used_bytes - before, kKeptMax);
  EXPECT_EQ(object,
            (json{{"metadata", {{"name", "10.55.0.0-24"}, {"managedFields", ManagedFieldsMarker()}}},
                  {"spec", {{"node", ""}}}}));
  EXPECT_LT(most, GetParam().bytes_max);
  EXPECT_GT(most, kManagedBytes) << "the answer is counted, so the test measures";
  std::printf("at most %zu bytes\n", most);
}

// The values would need 15 to 20 MB more.
const Reader kReaders[] = {{"OfAList", ReadFromList, 6'000'000},
                           {"OfAnObject", ReadFromGet, 3'000'000},
                           {"OfAWatchEvent", ReadFromWatch, 16'000'000}};
INSTANTIATE_TEST_SUITE_P(Table, ManagedFieldsMemory, ::testing::ValuesIn(kReaders),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
