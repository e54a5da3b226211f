// SPDX-License-Identifier: Apache-2.0
// HttpServer: which callers it answers, refuses, and lets wait.
#include "http/http_server.h"

#include <arpa/inet.h>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "http/http_test_caller.h"

namespace berth::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The handler answers "/slow" after Release, throws for "/throw", and answers all other paths at once. "/urgent" is
// urgent.
class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { std::filesystem::create_directories(folder_); }
  ~HttpServerTest() override {
    Release();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<HttpServer> MakeServer(HttpServerOptions options = {}) {
    options.socket_path = path_;
    // Connections end by time only in tests that set this limit.
    for (HttpLimits* const limits : {&options.socket_limits, &options.tcp_limits}) {
      if (limits->io_max == HttpLimits().io_max) limits->io_max = std::chrono::hours(1);
    }
    auto made = HttpServer::Make(options,
                                 {.answer = [this](const HttpRequest& request) { return Answer(request); },
                                  .overload = [] { return HttpAnswer{.status = 503, .body = "{}"}; },
                                  .is_urgent = [](const HttpRequest& request) { return request.path == "/urgent"; }});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return *std::move(made);
  }
  void StartServer(HttpServerOptions options = {}) { server_ = MakeServer(std::move(options)); }

  [[nodiscard]] HttpTestCaller Connect() const { return HttpTestCaller(path_); }
  [[nodiscard]] HttpTestCaller Ask(const std::string& path) const {
    HttpTestCaller caller(path_);
    caller.SendGet(path);
    return caller;
  }
  [[nodiscard]] std::string StatusOf(const std::string& path) const { return Ask(path).ReceiveStatus(); }
  // The status of the first answer that one of the two callers gets.
  [[nodiscard]] static std::string FirstStatusOf(const HttpTestCaller& a, const HttpTestCaller& b, int turns = 600) {
    constexpr milliseconds kTurn{100};
    for (int turn = 0; turn < turns; ++turn) {
      const HttpTestCaller& one = turn % 2 == 0 ? a : b;
      if (const std::string status = one.ReceiveStatus(kTurn); !status.empty()) return status;
    }
    return "";
  }
  // Sends `count` requests for "/slow", and waits until workers serve all of them.
  std::vector<HttpTestCaller> AskSlowly(int count) {
    std::vector<HttpTestCaller> callers;
    for (int i = 0; i < count; ++i) callers.push_back(Ask("/slow"));
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, seconds(60), [&] { return slow_ == count; }));
    return callers;
  }
  void Release() {
    const std::scoped_lock lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("berth-http-test." + std::to_string(getpid()));
  std::string path_ = folder_ / "s";
  std::vector<bool> delivered_;  // for "/told"; one worker writes it
  std::unique_ptr<HttpServer> server_;

 private:
  HttpAnswer Answer(const HttpRequest& request) {
    if (request.path == "/throw") throw std::logic_error("nobody expects this");
    if (request.path == "/megabytes") return {.body = std::string(std::size_t{8} << 20, 'x')};
    if (request.path == "/told") {
      return {.body = "{}", .done = [this](bool delivered) { delivered_.push_back(delivered); }};
    }
    if (request.path == "/throw-after") {
      return {.body = "{}", .done = [](bool) { throw std::logic_error("nor this"); }};
    }
    if (request.path == "/slow") {
      std::unique_lock lock(mutex_);
      ++slow_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_released_; });
    }
    return {.body = request.body};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int slow_ = 0;
  bool is_released_ = false;
};

TEST_F(HttpServerTest, AnswersARequest) {
  StartServer();
  const HttpTestCaller caller = Connect();
  caller.Send("POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
  const std::string answer = caller.Receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
}

TEST_F(HttpServerTest, AnswersARequestThatComesByteByByte) {
  StartServer();
  const HttpTestCaller caller = Connect();
  for (const char byte : std::string("POST /x HTTP/1.1\r\ncontent-length:5\r\n\r\nhello")) {
    caller.Send({&byte, 1});
  }
  EXPECT_TRUE(caller.Receive().ends_with("hello"));
}

TEST_F(HttpServerTest, AnswersARequestOfMegabytes) {
  StartServer();
  HttpTestCaller caller = Connect();
  const std::string body(std::size_t{4} << 20, 'x');
  const std::jthread sender(
      [&] { caller.Send("POST /x HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body); });
  EXPECT_GT(caller.Receive().size(), body.size());
}

TEST_F(HttpServerTest, AnswersManyCallersAtOnce) {
  StartServer();
  std::vector<std::jthread> callers;
  std::atomic<int> served = 0;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) served += StatusOf("/x") == "200" ? 1 : 0;
    });
  }
  callers.clear();
  EXPECT_EQ(served.load(), 16 * 50);
}

TEST_F(HttpServerTest, IdleConnectionsDoNotKeepCallsWaiting) {
  StartServer();
  std::vector<HttpTestCaller> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(Connect());
  EXPECT_EQ(StatusOf("/x"), "200");
}

TEST_F(HttpServerTest, HalfARequestDoesNotKeepCallsWaiting) {
  StartServer({.socket_limits = {.workers = 1}});
  const HttpTestCaller half = Connect();
  half.Send("POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhe");
  EXPECT_EQ(StatusOf("/x"), "200");
  half.Send("llo");
  EXPECT_EQ(half.ReceiveStatus(), "200");
}

TEST_F(HttpServerTest, ClosesAConnectionWhoseRequestDoesNotComeInTime) {
  StartServer({.socket_limits = {.io_max = milliseconds(50)}});
  const HttpTestCaller half = Connect();
  half.Send("POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhe");
  EXPECT_TRUE(half.IsClosed());
}

TEST_F(HttpServerTest, ClosesTheOldestOfTooManyIdleConnections) {
  StartServer({.socket_limits = {.reading_max = 2}});
  const HttpTestCaller oldest = Connect();
  const HttpTestCaller second = Connect();
  const HttpTestCaller third = Connect();
  EXPECT_EQ(StatusOf("/x"), "200");
  EXPECT_TRUE(oldest.IsClosed());
  third.SendGet("/x");
  EXPECT_EQ(third.ReceiveStatus(), "200");
}

TEST_F(HttpServerTest, TellsOnceWhetherTheAnswerWasDelivered) {
  StartServer({.socket_limits = {.workers = 1}});
  const auto slow = AskSlowly(1);
  static_cast<void>(Ask("/told"));  // this caller hangs up
  Release();
  EXPECT_EQ(StatusOf("/told"), "200");
  server_.reset();
  EXPECT_EQ(delivered_, (std::vector{false, true}));
}

TEST_F(HttpServerTest, UrgentRequestsDoNotWaitForOtherRequests) {
  StartServer({.socket_limits = {.workers = 8}});
  const auto slow = AskSlowly(7);
  const HttpTestCaller waiting = Ask("/slow");
  EXPECT_EQ(StatusOf("/urgent"), "200");
  Release();
  for (const HttpTestCaller& caller : slow) EXPECT_EQ(caller.ReceiveStatus(), "200");
  EXPECT_EQ(waiting.ReceiveStatus(), "200");
}

TEST_F(HttpServerTest, Answers503IfTooManyRequestsWait) {
  StartServer({.socket_limits = {.workers = 8, .waiting_max = 1}});
  const auto slow = AskSlowly(7);
  const HttpTestCaller first = Ask("/x");
  const HttpTestCaller second = Ask("/x");
  // The server may read either request first.
  EXPECT_EQ(FirstStatusOf(first, second), "503");
  EXPECT_EQ(FirstStatusOf(first, second, /*turns=*/4), "") << "the other one waits";
  EXPECT_EQ(StatusOf("/urgent"), "200");
}

TEST_F(HttpServerTest, RequestsWithAFreeWorkerDoNotCountAsWaiting) {
  StartServer({.socket_limits = {.workers = 8, .waiting_max = 1}});
  std::vector<HttpTestCaller> callers;
  for (int i = 0; i < 7; ++i) callers.push_back(Connect());
  for (const HttpTestCaller& caller : callers) caller.SendGet("/x");
  for (const HttpTestCaller& caller : callers) EXPECT_EQ(caller.ReceiveStatus(), "200");
}

TEST_F(HttpServerTest, TcpTakesNoWorkerOfTheSocket) {
  StartServer({.socket_limits = {.workers = 1}, .tcp_address = "127.0.0.1:0"});
  const auto connect_tcp = [&] { return HttpTestCaller(server_->tcp_port()); };
  std::vector<HttpTestCaller> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(connect_tcp());
  const HttpTestCaller healthz = connect_tcp();
  healthz.SendGet("/healthz");
  EXPECT_EQ(healthz.ReceiveStatus(), "200") << "not behind idle peers";
  std::vector<HttpTestCaller> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(connect_tcp());
    slow.back().SendGet("/slow");
  }
  EXPECT_EQ(StatusOf("/x"), "200");
}

TEST_F(HttpServerTest, NeedsNoUnixSocketIfItHasAPort) {
  const auto server = HttpServer::Make(
      {.tcp_address = "[::1]:0"},
      {.answer = [](const HttpRequest&) { return HttpAnswer(); }, .overload = [] { return HttpAnswer(); }});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  EXPECT_NE((*server)->tcp_port(), 0);
}

TEST_F(HttpServerTest, RefusesAPortThatAnotherProgramHas) {
  const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(other, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(other, 1), 0);
  ASSERT_EQ(getsockname(other, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto server = HttpServer::Make({.tcp_address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port))}, {});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, ErrorCode::kIo);
  close(other);
}

// A new agent on a node starts to listen while the previous agent still serves.
TEST_F(HttpServerTest, LeavesItsPortToItsSuccessor) {
  StartServer({.tcp_address = "127.0.0.1:0"});
  const int port = server_->tcp_port();
  const auto successor = HttpServer::Make({.tcp_address = "127.0.0.1:" + std::to_string(port)},
                                          {.answer = [](const HttpRequest&) { return HttpAnswer{.status = 418}; },
                                           .overload = [] { return HttpAnswer(); }});
  ASSERT_TRUE(successor.has_value()) << successor.error().message;
  server_.reset();
  for (int i = 0; i < 20; ++i) {
    const HttpTestCaller caller(port);
    caller.SendGet("/healthz");
    EXPECT_EQ(caller.ReceiveStatus(), "418");
  }
}

class RefusedAddress : public testing::TestWithParam<const char*> {};

TEST_P(RefusedAddress, IsInvalid) {
  const auto server = HttpServer::Make({.tcp_address = GetParam()}, {});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, ErrorCode::kInvalid);
}
INSTANTIATE_TEST_SUITE_P(Table, RefusedAddress,
                         testing::Values("8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1",
                                         "127.0.0.1:9746-", "127.0.0.1:9746-9745", "127.0.0.1:0-1", "localhost:8080"));

struct RefusedRequest {
  const char* name;
  std::string text;
  const char* status;
};

class RefusedRequestTest : public HttpServerTest, public testing::WithParamInterface<RefusedRequest> {};

TEST_P(RefusedRequestTest, GetsTheStatusThatSaysWhy) {
  StartServer();
  const HttpTestCaller caller = Connect();
  caller.Send(GetParam().text);
  EXPECT_EQ(caller.ReceiveStatus(), GetParam().status);
  EXPECT_EQ(StatusOf("/x"), "200");
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedRequestTest,
    testing::Values(RefusedRequest{"NoHttp", "hello\r\n\r\n", "400"},
                    RefusedRequest{"Chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "411"},
                    RefusedRequest{"OtherCodings", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "411"},
                    RefusedRequest{"LengthAndChunks",
                                   "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                   "400"},
                    RefusedRequest{"NoLength", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"},
                    RefusedRequest{"LongHead", "GET /" + std::string(20'000, 'x'), "431"},
                    RefusedRequest{"LongBody", "POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", "413"},
                    RefusedRequest{"Exception", "GET /throw HTTP/1.1\r\n\r\n", "500"},
                    RefusedRequest{"ExceptionAfterTheAnswer", "GET /throw-after HTTP/1.1\r\n\r\n", "200"}),
    [](const auto& row) { return std::string(row.param.name); });

// The fields come in pieces, so that each of the server's reads ends within a field.
TEST_F(HttpServerTest, RefusesAHeadOfManyFields) {
  StartServer();
  const HttpTestCaller caller = Connect();
  caller.Send("GET /xy HTTP/1.1\r\n");
  std::string fields;
  while (fields.size() < 128) fields += "a:\r\n";
  for (int i = 0; i < 1000 && caller.Push(fields); ++i) {
  }
  EXPECT_EQ(caller.ReceiveStatus(), "431");
}

TEST_F(HttpServerTest, ACallerThatDoesNotReadItsAnswerKeepsNoWorker) {
  StartServer({.socket_limits = {.workers = 1}});
  const HttpTestCaller lazy = Ask("/megabytes");
  EXPECT_EQ(StatusOf("/x"), "200");
  EXPECT_GT(lazy.Receive().size(), std::size_t{8} << 20);
}

TEST_F(HttpServerTest, ServesAcceptedCallersAndRefusesLaterOnes) {
  StartServer({.socket_limits = {.workers = 1}});
  const auto slow = AskSlowly(1);  // the only worker is busy
  const HttpTestCaller before = Ask("/x");
  server_->StopAccepting();
  EXPECT_EQ(Connect().connect_error(), ECONNREFUSED);
  Release();
  EXPECT_EQ(before.ReceiveStatus(), "200");
}

TEST_F(HttpServerTest, LeavesTheSocketOfItsSuccessorAlone) {
  StartServer();
  const auto successor = MakeServer();
  server_.reset();
  EXPECT_EQ(StatusOf("/x"), "200");
}

TEST_F(HttpServerTest, EndsEvenIfACallerSendsNothing) {
  StartServer();
  const HttpTestCaller idle = Connect();
  const HttpTestCaller busy = Ask("/x");
  EXPECT_EQ(busy.ReceiveStatus(), "200");
  server_.reset();
}

TEST_F(HttpServerTest, LeavesNoFileBehindButTheSocket) {
  StartServer();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// While a NoDescriptors exists, the process can open no descriptor.
class NoDescriptors {
 public:
  explicit NoDescriptors(int highest) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(highest) + 1, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(HttpServerTest, WaitsForDescriptorsWithoutSpinning) {
  StartServer({.socket_limits = {.workers = 1}});
  const int highest = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, path_.size());
  {
    const NoDescriptors none(highest);
    ASSERT_EQ(connect(highest, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const std::clock_t cpu = std::clock();
    pollfd caller{.fd = highest, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&caller, 1, 500), 0) << "nobody is let in";
    EXPECT_LT(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC, 0.1);
  }
  const std::string request = "GET /x HTTP/1.1\r\n\r\n";
  EXPECT_EQ(write(highest, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  char byte = 0;
  EXPECT_EQ(read(highest, &byte, 1), 1) << "it was let in as soon as there were descriptors";
  close(highest);
}

}  // namespace
}  // namespace berth::http
