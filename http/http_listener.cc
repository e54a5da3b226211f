// SPDX-License-Identifier: Apache-2.0
// Taking turns at polling; accepting, reading, and what waits for a worker.
#include "http/http_listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <spdlog/spdlog.h>

#include "sync/mutex.h"

namespace berth::http {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using std::chrono::milliseconds;

namespace {

// Ids of what is polled beside connections.
constexpr std::uint64_t kListenerId = 0;
constexpr std::uint64_t kWakeId = 1;
constexpr std::uint64_t kFirstConnectionId = 2;

// By the thread that reads for all.
constexpr milliseconds kShortAnswerMax{100};
// At the end, for a request of which the rest is under way.
constexpr milliseconds kLastReadMax{100};
// Without descriptors nobody can be accepted: look again then.
constexpr milliseconds kAcceptPause{50};
constexpr milliseconds kComplainEvery{10'000};
constexpr int kEventsMax = 64;

// Root, or whoever this process runs as.
bool MayCall(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == geteuid();
}

void Deliver(int descriptor, const HttpAnswer& answer, milliseconds io_max) {
  // A caller that has hung up reads no answer, though a write to it may still succeed.
  const bool delivered = !HasHungUp(descriptor) && WriteAnswer(descriptor, answer, io_max);
  if (!answer.done) return;
  try {
    answer.done(delivered);
  } catch (const std::exception& thrown) {
    spdlog::error("after an answer delivered={} err=\"{}\"", delivered, thrown.what());
  }
}

void Refuse(int descriptor, int status, const std::string& why) {
  static_cast<void>(
      WriteAnswer(descriptor, {.status = status, .content_type = "text/plain", .body = why + "\n"}, kShortAnswerMax));
}

bool Watch(int epoll, int operation, int descriptor, std::uint32_t events, std::uint64_t id) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  return epoll_ctl(epoll, operation, descriptor, &event) == 0;
}

}  // namespace

HttpListener::HttpListener(int descriptor, HttpListenerOptions options, const HttpHandlers& handlers)
    : options_(options), handlers_(handlers), listener_(descriptor), next_id_(kFirstConnectionId) {}

Expected<std::unique_ptr<HttpListener>> HttpListener::Make(int descriptor, HttpListenerOptions options,
                                                           const HttpHandlers& handlers) {
  std::unique_ptr<HttpListener> listener(new HttpListener(descriptor, options, handlers));
  if (auto prepared = listener->Prepare(); !prepared) return std::unexpected(prepared.error());
  for (std::size_t i = 0; i < options.workers; ++i) {
    listener->workers_.emplace_back([raw = listener.get()] { raw->Work(); });
  }
  return listener;
}

Expected<void> HttpListener::Prepare() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0 || !Watch(epoll_, EPOLL_CTL_ADD, wake_, EPOLLIN, kWakeId) ||
      !Watch(epoll_, EPOLL_CTL_ADD, listener_, EPOLLIN, kListenerId)) {
    return Fail(ErrorCode::kIo, std::string("prepare to wait for callers: ") + std::strerror(errno));
  }
  return {};
}

HttpListener::~HttpListener() {
  StopAccepting();
  {
    const sync::Lock lock(mutex_);
    is_ending_ = true;
    read_until_ = std::chrono::steady_clock::now() + kLastReadMax;
    changed_.notify_all();
  }
  const std::uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof(one)));
  for (std::thread& worker : workers_) worker.join();
  for (const auto& [id, connection] : reading_) close(connection.descriptor);
  for (const int descriptor : {epoll_, wake_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void HttpListener::StopAccepting() {
  if (listener_ < 0) return;
  sync::Lock lock(mutex_);
  is_stopping_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof(one)));
  changed_.wait(lock.native(), [this]() BERTH_REQUIRES(mutex_) { return !is_polled_; });
  is_polled_ = true;
  lock.unlock();
  // From here on a UNIX socket refuses callers, so that none comes between the last one accepted and the close.
  if (options_.is_local) shutdown(listener_, SHUT_RD);
  std::vector<Job> jobs;
  while (Accept(jobs)) {
  }
  close(std::exchange(listener_, -1));
  lock.lock();
  is_polled_ = false;
  is_stopping_ = false;
  Queue(std::move(jobs));
  changed_.notify_all();
}

void HttpListener::Work() {
  sync::Lock lock(mutex_);
  while (true) {
    if (const auto job = TakeJob()) {
      // For the next job, or to poll.
      if (!is_polled_ || !urgent_.empty() || !others_.empty()) changed_.notify_one();
      lock.unlock();
      Serve(*job);
      lock.lock();
      if (!job->is_urgent) --others_served_;
    } else if (MayPoll()) {
      is_polled_ = true;
      const Time read_until = read_until_;
      lock.unlock();
      auto jobs = Poll(read_until);
      lock.lock();
      is_polled_ = false;
      if (is_stopping_) changed_.notify_all();
      Queue(std::move(jobs));
    } else if (is_ending_) {
      return;
    } else {
      changed_.wait(lock.native());
    }
  }
}

std::unique_ptr<HttpListener::Job> HttpListener::TakeJob() {
  const auto pop = [](std::deque<Job>& jobs) {
    auto job = std::make_unique<Job>(std::move(jobs.front()));
    jobs.pop_front();
    return job;
  };
  if (!urgent_.empty()) return pop(urgent_);
  if (others_.empty() || others_served_ >= options_.workers - options_.kept_workers) return nullptr;
  ++others_served_;
  return pop(others_);
}

bool HttpListener::MayPoll() const {
  if (is_polled_ || is_stopping_) return false;
  return !is_ending_ || !reading_.empty();
}

void HttpListener::Queue(std::vector<Job> jobs) {
  for (Job& job : jobs) (job.is_urgent ? urgent_ : others_).push_back(std::move(job));
}

void HttpListener::Serve(const Job& job) {
  Deliver(job.descriptor, AnswerTo(job.request), options_.io_max);
  close(job.descriptor);
}

// What a handler lets out is the one request's misfortune.
HttpAnswer HttpListener::AnswerTo(const HttpRequest& request) const {
  try {
    return handlers_.answer(request);
  } catch (const std::exception& thrown) {
    spdlog::error("serve {} {} err=\"{}\"", request.method, request.path, thrown.what());
    return {.status = 500, .content_type = "text/plain", .body = "a bug, see the log\n"};
  }
}

// Until there is something to do.
std::vector<HttpListener::Job> HttpListener::Poll(Time read_until) {
  std::vector<Job> jobs;
  bool is_woken = false;
  while (jobs.empty() && !is_woken) {
    DropLate(read_until);
    if (read_until != Time::max() && reading_.empty()) break;
    ResumeAccepting();
    std::array<epoll_event, kEventsMax> events{};
    const int count = epoll_wait(epoll_, events.data(), kEventsMax, PollMillis(read_until));
    for (int i = 0; i < count; ++i) {
      const Id id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == kListenerId) {
        static_cast<void>(Accept(jobs));
      } else if (id == kWakeId) {
        std::uint64_t times = 0;
        static_cast<void>(!read(wake_, &times, sizeof(times)));
        is_woken = true;
      } else {
        ReadFrom(id, EPOLL_CTL_MOD, jobs);
      }
    }
  }
  return jobs;
}

int HttpListener::PollMillis(Time read_until) const {
  Time next = read_until;
  if (!reading_.empty()) next = std::min(next, reading_.begin()->second.end);
  if (is_paused_) next = std::min(next, accept_again_);
  if (next == Time::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(next - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

// False: nobody waits, or nobody can be let in now.
bool HttpListener::Accept(std::vector<Job>& jobs) {
  const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EINTR || errno == ECONNABORTED) return true;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) PauseAccepting(errno);
    return false;
  }
  if (options_.is_local && !MayCall(descriptor)) {
    static_cast<void>(WriteAnswer(descriptor, {.status = 403, .body = "{}"}, kShortAnswerMax));
    close(descriptor);
    return true;
  }
  // Those that come whole stay for a moment only: the oldest is not going to.
  if (reading_.size() >= options_.reading_max) Drop(reading_.begin()->first);
  const Id id = next_id_++;
  reading_.emplace(id,
                   Connection{.descriptor = descriptor,
                              .reader = RequestReader(options_.body_bytes_max),
                              .end = std::chrono::steady_clock::now() + options_.io_max});
  ReadFrom(id, EPOLL_CTL_ADD, jobs);
  return true;
}

void HttpListener::ReadFrom(Id id, int operation, std::vector<Job>& jobs) {
  const auto found = reading_.find(id);
  if (found == reading_.end()) return;  // dropped, for one that came
  Connection& connection = found->second;
  const auto is_whole = connection.reader.Read(connection.descriptor);
  if (!is_whole) {
    if (is_whole.error().code != ErrorCode::kIo) {
      Refuse(connection.descriptor, is_whole.error().code == ErrorCode::kInvalid ? 413 : 400, is_whole.error().message);
    }
    Drop(id);
    return;
  }
  if (!*is_whole) {
    // Once: whoever serves the request looks at the connection by himself.
    if (!Watch(epoll_, operation, connection.descriptor, EPOLLIN | EPOLLONESHOT, id)) Drop(id);
    return;
  }
  Job job{.descriptor = connection.descriptor, .request = connection.reader.Take(), .is_urgent = false};
  job.request.is_local = options_.is_local;
  job.is_urgent = handlers_.is_urgent && handlers_.is_urgent(job.request);
  reading_.erase(found);
  if (!IsFull(job.is_urgent, jobs)) {
    jobs.push_back(std::move(job));
    return;
  }
  Deliver(job.descriptor, handlers_.overload(), kShortAnswerMax);
  close(job.descriptor);
}

bool HttpListener::IsFull(bool is_urgent, const std::vector<Job>& jobs) {
  const auto read = std::ranges::count(jobs, is_urgent, &Job::is_urgent);
  const sync::Lock lock(mutex_);
  // What was read with it waits as well, unless a worker takes it at once.
  const std::size_t others_free = options_.workers - options_.kept_workers - others_served_;
  const std::size_t free = is_urgent ? options_.kept_workers : others_free;
  const std::size_t waiting = (is_urgent ? urgent_ : others_).size() + static_cast<std::size_t>(read);
  return waiting >= options_.waiting_max + free;
}

void HttpListener::Drop(Id id) {
  const auto found = reading_.find(id);
  close(found->second.descriptor);
  reading_.erase(found);
}

void HttpListener::DropLate(Time read_until) {
  const Time now = std::chrono::steady_clock::now();
  while (!reading_.empty() && std::min(read_until, reading_.begin()->second.end) <= now) {
    Refuse(reading_.begin()->second.descriptor, 408, "the request did not come in time");
    Drop(reading_.begin()->first);
  }
}

void HttpListener::PauseAccepting(int error) {
  const Time now = std::chrono::steady_clock::now();
  if (now - accept_again_ > kComplainEvery) {
    spdlog::error("cannot accept connections, so callers wait err=\"{}\"", std::strerror(error));
  }
  is_paused_ = true;
  accept_again_ = now + kAcceptPause;
  static_cast<void>(Watch(epoll_, EPOLL_CTL_MOD, listener_, 0, kListenerId));
}

void HttpListener::ResumeAccepting() {
  if (!is_paused_ || std::chrono::steady_clock::now() < accept_again_) return;
  is_paused_ = false;
  if (listener_ >= 0) static_cast<void>(Watch(epoll_, EPOLL_CTL_MOD, listener_, EPOLLIN, kListenerId));
}

}  // namespace berth::http
