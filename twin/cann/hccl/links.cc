#include "twin/cann/hccl/links.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "twin/host/wait.h"

namespace twin::hccl {

namespace {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int number = -1) : number_(number) {}
  Socket(Socket&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Socket() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

std::string Worker(uint32_t rank) { return "worker " + std::to_string(rank); }

Failure SystemFailure(const std::string& what) {
  return {kCannotConnect, what + ": " + std::strerror(errno)};
}

// A name without a file, which ends with the socket.
socklen_t Address(const Place& place, uint32_t rank, sockaddr_un* address) {
  const std::string name = "ascendc_twin/" + place.token + "/" + std::to_string(rank);
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address->sun_path)) {
    throw Failure(kParameter, "a communicator's identity is too long");
  }
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Socket NewSocket() {
  Socket made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.number() < 0) throw SystemFailure("no socket");
  return made;
}

// False if the other end has gone.
bool SendAll(int to, const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t done = send(to, from, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool ReceiveAll(int from, void* data, size_t bytes) {
  auto* to = static_cast<uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t done = recv(from, to, bytes, MSG_WAITALL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    to += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

struct Hello {
  uint32_t rank, size;
  int32_t device;
};

struct Header {
  Kind kind;
  uint32_t lengths[3];
  uint64_t number, bytes;
};

class Mesh : public Links, public std::enable_shared_from_this<Mesh> {
 public:
  explicit Mesh(const Place& place)
      : place_(place), sockets_(place.size), senders_(place.size), last_(place.size) {}

  void Meet(uint64_t seconds) {
    const auto end = Clock::now() + std::chrono::seconds(seconds);
    const Socket listener = Listen();
    for (uint32_t peer = 0; peer < place_.rank; ++peer) {
      sockets_[peer] = Reach(peer, end);
      Exchange(sockets_[peer].number(), peer);
    }
    for (uint32_t missing = place_.size - 1 - place_.rank; missing > 0;) {
      if (Accept(listener.number(), end)) --missing;
    }
  }

  // The thread keeps the mesh until all others have left.
  void Start() {
    if (place_.size == 1) return;
    std::thread([self = shared_from_this()] { self->Read(); }).detach();
  }

  void Post(Kind kind, uint64_t number, uint32_t peer, const Message& message) override {
    const std::lock_guard<std::mutex> lock(senders_[peer]);
    const std::string* texts[] = {&message.call, &message.gives, &message.expects};
    Header header = {kind, {}, number, message.payload.size()};
    for (int i = 0; i < 3; ++i) header.lengths[i] = static_cast<uint32_t>(texts[i]->size());
    const int to = sockets_[peer].number();
    // Whether the other has gone shows where its own message is waited for.
    if (!SendAll(to, &header, sizeof(header))) return;
    for (const std::string* text : texts) {
      if (!SendAll(to, text->data(), text->size())) return;
    }
    SendAll(to, message.payload.data(), message.payload.size());
  }

  Message Wait(Kind kind, uint64_t number, uint32_t peer, const std::string& own,
               uint64_t seconds) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto key = std::make_tuple(kind, peer, number);
    Peer& other = last_[peer];
    const auto milliseconds = static_cast<int32_t>(seconds * 1000);
    WaitUntil(changed_, lock, milliseconds, [&] { return arrived_.count(key) > 0 || other.gone; });
    const auto found = arrived_.find(key);
    if (found != arrived_.end()) {
      Message message = std::move(found->second);
      arrived_.erase(found);
      return message;
    }
    const std::string who = Worker(peer) + ", whose last call there was " + other.call;
    const std::string here = Worker(place_.rank) + " waits in " + own + " of communicator " +
                             place_.name + " for " + who;
    if (!other.gone) {
      throw Failure(kTimeout, here + ", for longer than " + std::to_string(seconds) +
                                  " s, HCCL_EXEC_TIMEOUT");
    }
    throw Failure(kRemote, here + (other.left ? ", and has destroyed the communicator"
                                              : ", and whose process has ended"));
  }

  void Leave() override {
    for (uint32_t peer = 0; peer < place_.size; ++peer) {
      if (peer == place_.rank) continue;
      Post(Kind::kLeave, 0, peer, {});
      shutdown(sockets_[peer].number(), SHUT_WR);
    }
  }

 private:
  struct Peer {
    std::string call = "none";
    bool left = false, gone = false;
  };

  Socket Listen() const {
    Socket listener = NewSocket();
    sockaddr_un address;
    const socklen_t length = Address(place_, place_.rank, &address);
    if (bind(listener.number(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
      if (errno != EADDRINUSE) throw SystemFailure("bind");
      throw Failure(kParameter, "another process is " + Worker(place_.rank) + " of communicator " +
                                    place_.name + " already");
    }
    if (listen(listener.number(), static_cast<int>(place_.size)) != 0) {
      throw SystemFailure("listen");
    }
    return listener;
  }

  // Another worker may not listen yet.
  Socket Reach(uint32_t peer, Clock::time_point end) const {
    sockaddr_un address;
    const socklen_t length = Address(place_, peer, &address);
    while (true) {
      Socket found = NewSocket();
      if (connect(found.number(), reinterpret_cast<sockaddr*>(&address), length) == 0) return found;
      if (errno != ECONNREFUSED && errno != EINTR) throw SystemFailure("connect");
      if (Clock::now() > end) throw Absent(Worker(peer));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Failure Absent(const std::string& who) const {
    return {kTimeout, Worker(place_.rank) + " of " + std::to_string(place_.size) +
                          " waits in communicator " + place_.name + " for " + who +
                          ", for longer than HCCL_CONNECT_TIMEOUT"};
  }

  bool Accept(int listener, Clock::time_point end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd ready = {listener, POLLIN, 0};
    const int found_ready = left.count() <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left.count()));
    // After a signal nobody may be there, and to accept would wait without an end.
    if (found_ready < 0) return false;
    if (found_ready == 0) {
      std::string missing;
      for (uint32_t peer = place_.rank + 1; peer < place_.size; ++peer) {
        if (sockets_[peer].number() >= 0) continue;
        missing += (missing.empty() ? "" : ", ") + Worker(peer);
      }
      throw Absent(missing);
    }
    Socket found(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    ucred owner = {};
    socklen_t length = sizeof(owner);
    if (found.number() < 0 ||
        getsockopt(found.number(), SOL_SOCKET, SO_PEERCRED, &owner, &length) != 0 ||
        owner.uid != getuid()) {
      return false;
    }
    const uint32_t peer = Exchange(found.number(), place_.size);
    if (sockets_[peer].number() >= 0) {
      throw Failure(kParameter,
                    "two processes are " + Worker(peer) + " of communicator " + place_.name);
    }
    sockets_[peer] = std::move(found);
    return true;
  }

  // The worker at the other end; `expected` is one, or the size if it is not known yet.
  uint32_t Exchange(int socket, uint32_t expected) const {
    const Hello own = {place_.rank, place_.size, place_.device};
    Hello other;
    if (!SendAll(socket, &own, sizeof(own)) || !ReceiveAll(socket, &other, sizeof(other))) {
      throw Failure(kRemote, "another worker of communicator " + place_.name +
                                 " has ended while it was being made");
    }
    const std::string both =
        Worker(own.rank) + " and " + Worker(other.rank) + " of communicator " + place_.name;
    if (other.size != own.size) {
      throw Failure(kParameter, both + " must agree on its size, got " + std::to_string(own.size) +
                                    " and " + std::to_string(other.size));
    }
    if (other.device == own.device) {
      throw Failure(kParameter, both + " must have devices of their own, got device " +
                                    std::to_string(own.device) + " for both");
    }
    if (other.rank >= own.size || (expected < own.size && other.rank != expected)) {
      throw Failure(kInternal, both + ": not the worker that was expected");
    }
    return other.rank;
  }

  void Read() {
    std::vector<pollfd> open;
    for (const Socket& socket : sockets_) {
      // poll() passes over those with a negative number.
      open.push_back({socket.number(), POLLIN, 0});
    }
    for (size_t left = open.size() - 1; left > 0;) {
      if (poll(open.data(), open.size(), -1) < 0 && errno != EINTR) return;
      for (uint32_t peer = 0; peer < open.size(); ++peer) {
        if (open[peer].fd < 0 || open[peer].revents == 0) continue;
        if (Take(peer, open[peer].fd)) continue;
        open[peer].fd = -1;
        --left;
      }
    }
  }

  // False at the end of what a worker has sent.
  bool Take(uint32_t peer, int from) {
    Header header;
    Message message;
    bool complete = ReceiveAll(from, &header, sizeof(header));
    if (complete) {
      std::string* texts[] = {&message.call, &message.gives, &message.expects};
      for (int i = 0; i < 3; ++i) {
        texts[i]->resize(header.lengths[i]);
        complete = complete && ReceiveAll(from, texts[i]->data(), texts[i]->size());
      }
      message.payload.resize(header.bytes);
      complete = complete && ReceiveAll(from, message.payload.data(), message.payload.size());
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    Peer& other = last_[peer];
    if (!complete || header.kind == Kind::kLeave) {
      other.gone = true;
      other.left = complete;
    } else {
      other.call = message.call;
      arrived_[std::make_tuple(header.kind, peer, header.number)] = std::move(message);
    }
    changed_.notify_all();
    return !other.gone;
  }

  const Place place_;
  std::vector<Socket> sockets_;
  std::vector<std::mutex> senders_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> last_;
  std::map<std::tuple<Kind, uint32_t, uint64_t>, Message> arrived_;
};

}  // namespace

std::shared_ptr<Links> Links::Connect(const Place& place, uint64_t seconds) {
  auto mesh = std::make_shared<Mesh>(place);
  mesh->Meet(seconds);
  mesh->Start();
  return mesh;
}

}  // namespace twin::hccl
