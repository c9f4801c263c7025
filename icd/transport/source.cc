#include "icd/transport/source.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "icd/transport/log.h"

namespace sluice::icd {
namespace {

class SocketSource final : public guest::ChannelSource {
 public:
  constexpr SocketSource() = default;
  guest::GuestChannel* Open() override;
  void Close(guest::GuestChannel* channel) override;

  // Lets connections without contexts go. When the library is unloaded.
  void Trim();
  size_t connections();
  size_t contexts();

  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();

 private:
  struct Held {
    std::string path;  // as SLUICE_SOCKET named it
    std::shared_ptr<Connection> connection;
    std::vector<std::unique_ptr<SocketPlatform>> platforms;
  };
  // Under the lock: a live connection with room for one more context. Null: *why.
  Held* Find(std::string* why);

  FutexLock lock_;
  bool watching_forks_ = false;
  std::vector<std::unique_ptr<Held>> held_;
};

// Never destroyed: at exit, threads may still be in Vulkan. What has no contexts goes in Unload.
union Undying {
  constexpr Undying() : source() {}
  ~Undying() {}
  SocketSource source;
};
constinit Undying undying;

SocketSource& Source() {
  return undying.source;
}

SocketSource::Held* SocketSource::Find(std::string* why) {
  const char* path = getenv("SLUICE_SOCKET");
  if (path == nullptr || path[0] == 0) {
    *why = "SLUICE_SOCKET does not name the socket of a GPU Domain";
    return nullptr;
  }
  // What is dead, or leads to where the program wants to go no more, is kept only while instances use it.
  held_.erase(std::remove_if(held_.begin(), held_.end(),
                             [&](const auto& held) {
                               return held->platforms.empty() && (held->path != path || !held->connection->Poll());
                             }),
              held_.end());
  for (const std::unique_ptr<Held>& held : held_) {
    if (held->path == path && held->connection->Poll() &&
        held->platforms.size() < held->connection->capset().max_contexts) {
      return held.get();
    }
  }
  std::shared_ptr<Connection> connection = Connection::Open(path, why);
  if (connection == nullptr) return nullptr;
  held_.push_back(std::make_unique<Held>());
  held_.back()->path = path;
  held_.back()->connection = std::move(connection);
  return held_.back().get();
}

guest::GuestChannel* SocketSource::Open() {
  std::string why;
  std::lock_guard guard(lock_);
  if (!watching_forks_) {
    watching_forks_ = pthread_atfork([] { Source().BeforeFork(); }, [] { Source().AfterForkInParent(); },
                                     [] { Source().AfterForkInChild(); }) == 0;
  }
  Held* held = Find(&why);
  std::unique_ptr<SocketPlatform> platform;
  if (held != nullptr) platform = SocketPlatform::Open(held->connection, &why);
  if (platform == nullptr) {
    Log("no GPU: %s", why.c_str());
    return nullptr;
  }
  held->platforms.push_back(std::move(platform));
  return &held->platforms.back()->channel();
}

void SocketSource::Close(guest::GuestChannel* channel) {
  std::unique_ptr<SocketPlatform> closed;
  std::lock_guard guard(lock_);
  for (auto held = held_.begin(); held != held_.end(); ++held) {
    auto& platforms = (*held)->platforms;
    const auto it = std::find_if(platforms.begin(), platforms.end(),
                                 [&](const auto& platform) { return &platform->channel() == channel; });
    if (it == platforms.end()) continue;
    closed = std::move(*it);
    platforms.erase(it);
    if (platforms.empty() && !(*held)->connection->Poll()) held_.erase(held);
    return;
  }
}

void SocketSource::Trim() {
  std::lock_guard guard(lock_);
  held_.erase(std::remove_if(held_.begin(), held_.end(), [](const auto& held) { return held->platforms.empty(); }),
              held_.end());
  held_.shrink_to_fit();
}

size_t SocketSource::connections() {
  std::lock_guard guard(lock_);
  return held_.size();
}

size_t SocketSource::contexts() {
  std::lock_guard guard(lock_);
  size_t n = 0;
  for (const auto& held : held_) n += held->platforms.size();
  return n;
}

// The order in which the locks are taken everywhere: the source's, a platform's, a connection's.
void SocketSource::BeforeFork() {
  lock_.lock();
  for (const auto& held : held_) {
    for (const auto& platform : held->platforms) platform->Lock();
  }
  for (const auto& held : held_) held->connection->LockForFork();
}

void SocketSource::AfterForkInParent() {
  for (const auto& held : held_) held->connection->UnlockAfterFork();
  for (const auto& held : held_) {
    for (const auto& platform : held->platforms) platform->UnlockAfterFork();
  }
  lock_.unlock();
}

void SocketSource::AfterForkInChild() {
  for (const auto& held : held_) held->connection->AbandonInChild();
  for (const auto& held : held_) {
    for (const auto& platform : held->platforms) platform->AbandonInChild();
  }
  AfterForkInParent();
}

__attribute__((destructor)) void Unload() {
  Source().Trim();
}

}  // namespace

guest::ChannelSource& ProcessChannels() {
  return Source();
}

SocketPlatform& PlatformOf(guest::GuestChannel& channel) {
  return static_cast<SocketPlatform&>(channel.platform());
}

size_t OpenConnections() {
  return Source().connections();
}

size_t OpenContexts() {
  return Source().contexts();
}

}  // namespace sluice::icd
