#include "devices/gpu-front/fences.h"

namespace sluice::gpu_front {

void FenceTimelines::Retire(Timeline* timeline, std::vector<uint64_t>* done) {
  while (!timeline->empty() && timeline->front().ready) {
    done->push_back(timeline->front().request);
    timeline->pop_front();
  }
}

void FenceTimelines::Add(const TimelineKey& key, const TimelineEntry& entry, std::vector<uint64_t>* done) {
  const auto it = timelines_.find(key);
  if (entry.ready && it == timelines_.end()) {
    done->push_back(entry.request);  // nothing older: it need not be kept
    return;
  }
  timelines_[key].push_back(entry);
}

void FenceTimelines::MarkReady(const TimelineKey& key, uint64_t request, std::vector<uint64_t>* done) {
  const auto it = timelines_.find(key);
  if (it == timelines_.end()) return;
  for (TimelineEntry& entry : it->second) {
    if (entry.request == request) entry.ready = true;
  }
  Retire(&it->second, done);
  if (it->second.empty()) timelines_.erase(it);
}

bool FenceTimelines::Signal(uint32_t context, uint8_t ring, uint64_t request, std::vector<uint64_t>* done) {
  const TimelineKey keys[] = {TimelineKey::Ring(context, ring), TimelineKey::Global()};
  bool known = false;
  for (const TimelineKey& key : keys) {
    const auto it = timelines_.find(key);
    if (it == timelines_.end()) continue;
    for (const TimelineEntry& entry : it->second) {
      if (entry.from_domain && entry.context == context && entry.ring == ring && entry.request == request) known = true;
    }
  }
  if (!known) return false;
  for (const TimelineKey& key : keys) {
    const auto it = timelines_.find(key);
    if (it == timelines_.end()) continue;
    for (TimelineEntry& entry : it->second) {
      if (entry.request > request) break;
      if (entry.from_domain && entry.context == context && entry.ring == ring) entry.ready = true;
    }
    Retire(&it->second, done);
    if (it->second.empty()) timelines_.erase(it);
  }
  return true;
}

void FenceTimelines::ReleaseContext(uint32_t context, std::vector<uint64_t>* affected, std::vector<uint64_t>* done) {
  for (auto it = timelines_.begin(); it != timelines_.end();) {
    for (TimelineEntry& entry : it->second) {
      if (entry.from_domain && entry.context == context && !entry.ready) {
        entry.ready = true;
        affected->push_back(entry.request);
      }
    }
    Retire(&it->second, done);
    it = it->second.empty() ? timelines_.erase(it) : std::next(it);
  }
}

size_t FenceTimelines::outstanding() const {
  size_t n = 0;
  for (const auto& [key, timeline] : timelines_) n += timeline.size();
  return n;
}

}  // namespace sluice::gpu_front
