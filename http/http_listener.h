// SPDX-License-Identifier: Apache-2.0
// HttpListener: one listening socket, the connections that came to it, and the threads that serve them.
//
// A worker is taken by a request that has come as a whole, never by a connection. One of the workers that have nothing
// to do waits for all sockets at once, accepts and reads; with the first whole request it hands that over to the next
// idle one and serves the request itself, so that a request changes threads only where several come at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "http/http_message.h"
#include "http/http_server.h"
#include "ipam/error.h"
#include "sync/mutex.h"

namespace berth::http {

struct HttpListenerOptions {
  bool is_local = false;  // a UNIX socket: only root and who this process runs as may call
  std::size_t workers = 1;
  // So many of the workers serve urgent requests only. Less than `workers`.
  std::size_t kept_workers = 0;
  // So many connections may be without a whole request; with one more, the oldest is closed.
  std::size_t reading_max = 1024;
  // So many urgent requests may wait for a worker, and so many others.
  std::size_t waiting_max = 1024;
  std::size_t body_bytes_max = 0;
  std::chrono::milliseconds io_max = {};  // for the whole request, and for the whole answer
};

class HttpListener {
 public:
  // Serves what comes to `descriptor`, which listens, does not block and is closed by this. Errors: kIo.
  [[nodiscard]] static ipam::Expected<std::unique_ptr<HttpListener>> Make(int descriptor, HttpListenerOptions options,
                                                                          const HttpHandlers& handlers);
  // Stops accepting, serves what has come, ends.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Callers that come from now on are refused by the kernel; whom it has let in before is served.
  void StopAccepting();

 private:
  using Time = std::chrono::steady_clock::time_point;
  // In the order in which they came.
  using Id = std::uint64_t;
  struct Connection {
    int descriptor;
    RequestReader reader;
    Time end;  // of reading
  };
  struct Job {
    int descriptor;
    HttpRequest request;
    bool is_urgent;
  };

  HttpListener(int descriptor, HttpListenerOptions options, const HttpHandlers& handlers);
  [[nodiscard]] ipam::Expected<void> Prepare();

  void Work();
  [[nodiscard]] std::unique_ptr<Job> TakeJob() BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool MayPoll() const BERTH_REQUIRES(mutex_);
  void Queue(std::vector<Job> jobs) BERTH_REQUIRES(mutex_);
  void Serve(const Job& job);
  [[nodiscard]] HttpAnswer AnswerTo(const HttpRequest& request) const;

  // By who has the turn to poll, and nobody else.
  [[nodiscard]] std::vector<Job> Poll(Time read_until);
  [[nodiscard]] int PollMillis(Time read_until) const;
  [[nodiscard]] bool Accept(std::vector<Job>& jobs);
  void ReadFrom(Id id, int operation, std::vector<Job>& jobs);
  // Whether no more of these may wait. `jobs`: what was read and is not queued yet.
  [[nodiscard]] bool IsFull(bool is_urgent, const std::vector<Job>& jobs);
  void Drop(Id id);
  void DropLate(Time read_until);
  void PauseAccepting(int error);
  void ResumeAccepting();

  const HttpListenerOptions options_;
  const HttpHandlers& handlers_;
  int listener_;
  int epoll_ = -1;
  int wake_ = -1;  // eventfd that ends a poll

  // What polling needs.
  std::map<Id, Connection> reading_;
  Id next_id_;
  Time accept_again_ = {};  // no descriptors are left until then
  bool is_paused_ = false;

  sync::Mutex mutex_;
  std::condition_variable changed_;
  bool is_polled_ BERTH_GUARDED_BY(mutex_) = false;
  bool is_stopping_ BERTH_GUARDED_BY(mutex_) = false;  // somebody waits for the turn to poll, to stop accepting
  bool is_ending_ BERTH_GUARDED_BY(mutex_) = false;
  Time read_until_ BERTH_GUARDED_BY(mutex_) = Time::max();  // at the end
  std::deque<Job> urgent_ BERTH_GUARDED_BY(mutex_);
  std::deque<Job> others_ BERTH_GUARDED_BY(mutex_);
  std::size_t others_served_ BERTH_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> workers_;
};

}  // namespace berth::http
