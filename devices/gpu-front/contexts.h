// File: contexts.h
//
// The guest's contexts. A context with our capability set exists in the GPU Domain too; one with capability set 0
// (which stock drivers make for programs that only use 2D) exists here only, can hold resources, and can submit
// nothing.
#ifndef SLUICE_DEVICES_GPU_FRONT_CONTEXTS_H_
#define SLUICE_DEVICES_GPU_FRONT_CONTEXTS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace sluice::gpu_front {

struct Context {
  uint32_t id = 0;
  std::string name;
  bool in_domain = false;                  // made with our capability set
  bool lost = false;                       // in_domain only: the domain will not run anything for it any more
  uint64_t channel = 0;                    // in_domain only: generation of the channel that knows it
  absl::flat_hash_set<uint32_t> attached;  // resource ids
};

// One thread. Contexts stay at their address until the table changes.
class ContextTable {
 public:
  explicit ContextTable(uint32_t max) : max_(max) {}

  Context* Find(uint32_t id) {
    const auto it = contexts_.find(id);
    return it == contexts_.end() ? nullptr : &it->second;
  }
  bool full() const { return contexts_.size() >= max_; }
  Context* Add(Context context) { return &contexts_.insert_or_assign(context.id, std::move(context)).first->second; }
  void Remove(uint32_t id) { contexts_.erase(id); }
  void Clear() { contexts_.clear(); }
  size_t size() const { return contexts_.size(); }

  // A resource is going: no context holds it any more.
  void DetachEverywhere(uint32_t resource_id) {
    for (auto& [id, context] : contexts_) context.attached.erase(resource_id);
  }
  template <typename Visitor>
  void ForEach(Visitor visit) {
    for (auto& [id, context] : contexts_) visit(context);
  }

 private:
  uint32_t max_;
  absl::flat_hash_map<uint32_t, Context> contexts_;
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_CONTEXTS_H_
