// SPDX-License-Identifier: Apache-2.0
// Health: what the endpoints answer, and addresses that are none.
#include "reconciler/health.h"

#include <string>

#include <gtest/gtest.h>
#include <httplib.h>

namespace berth::reconciler {
namespace {

TEST(Health, SaysWhyItIsNotReady) {
  std::string why = "not listed yet";
  const auto server = HealthServer::Start("127.0.0.1:0", [&] { return why; });
  ASSERT_TRUE(server.has_value()) << server.error().message;
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto alive = client.Get("/healthz");
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->status, 200);
  const auto waiting = client.Get("/readyz");
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->status, 503);
  EXPECT_EQ(waiting->body, "not listed yet\n");
  why.clear();
  EXPECT_EQ(client.Get("/readyz")->status, 200);
  EXPECT_EQ(client.Get("/")->status, 404);
}

TEST(Health, RefusesAPortThatIsTaken) {
  const auto first = HealthServer::Start("127.0.0.1:0", [] { return std::string(); });
  ASSERT_TRUE(first.has_value());
  // httplib shares ports between sockets of one user, so an address of nobody stands for one that cannot be had.
  const auto other = HealthServer::Start("192.0.2.1:" + std::to_string((*first)->port()), [] { return std::string(); });
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ipam::ErrorCode::kIo);
}

class HealthAddress : public testing::TestWithParam<const char*> {};

TEST_P(HealthAddress, IsRefused) {
  const auto server = HealthServer::Start(GetParam(), [] { return std::string(); });
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, ipam::ErrorCode::kInvalid);
}
INSTANTIATE_TEST_SUITE_P(Table, HealthAddress,
                         testing::Values("", "8080", ":8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
                                         "127.0.0.1:-1"));

}  // namespace
}  // namespace berth::reconciler
