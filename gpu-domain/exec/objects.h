// File: objects.h
//
// The flat table of one context's Vulkan objects: id -> {type, parent, device, driver handle, generation}. Ids come
// from the guest (index and generation); the table is where they stop being believed.
//
//   uint32_t index = objects.Insert(id, ObjectType::kBuffer, parent, device, 0);   // 0: refused
//   objects[index].handle = HandleValue(buffer);
//   const Object* object = objects.Find(id, ObjectType::kBuffer);                  // null: stale, unknown or of
//   another type
#ifndef SLUICE_GPU_DOMAIN_EXEC_OBJECTS_H_
#define SLUICE_GPU_DOMAIN_EXEC_OBJECTS_H_

#include <cstdint>
#include <vector>

#include "flatbuf/vk/exec_types.h"
#include "flatbuf/wire.h"

namespace sluice::exec {

struct Object {
  uint64_t handle = 0;  // the driver's; 0 while reserved
  uint32_t generation = 0;
  uint32_t parent = 0;  // index; 0: none
  uint32_t device = 0;  // index of the VkDevice it belongs to (a device: itself); 0: instance level
  uint32_t first_child = 0, next = 0, previous = 0;
  uint32_t aux =
      0;  // by type: command buffers: level and state; descriptor pools: flags; devices: slot in Impl::devices
  ObjectType type = ObjectType::kNone;
};

class ObjectTable {
 public:
  explicit ObjectTable(uint32_t max_objects) : max_objects_(max_objects), objects_(1) {}

  static constexpr uint32_t Index(uint64_t id) { return static_cast<uint32_t>(id); }

  // The living object of that id and type, or null.
  const Object* Find(uint64_t id, ObjectType type) const {
    const uint64_t index = id & 0xffffffff;
    if (index == 0 || index >= objects_.size()) return nullptr;
    const Object& o = objects_[index];
    return o.type == type && o.generation == id >> 32 && o.handle != 0 ? &o : nullptr;
  }

  // Whether the id names an object of that type that the driver refused to make, in a command that nobody waited for.
  bool Failed(uint64_t id, ObjectType type) const {
    const uint64_t index = id & 0xffffffff;
    if (index == 0 || index >= objects_.size()) return false;
    const Object& o = objects_[index];
    return o.type == type && o.generation == id >> 32 && o.handle == 0;
  }

  // Takes the id; returns its index, or 0 if the index is out of range or taken, or too many objects live.
  uint32_t Insert(uint64_t id, ObjectType type, uint32_t parent, uint32_t device, uint32_t aux) {
    const uint64_t index = id & 0xffffffff;
    if (index == 0 || index > wire::kMaxObjectIndex || live_ >= max_objects_) return 0;
    if (index >= objects_.size()) objects_.resize(index + 1);
    Object& o = objects_[index];
    if (o.type != ObjectType::kNone) return 0;
    o = Object{};
    o.generation = static_cast<uint32_t>(id >> 32);
    o.type = type;
    o.parent = parent;
    o.device = device;
    o.aux = aux;
    if (parent != 0) {
      Object& p = objects_[parent];
      o.next = p.first_child;
      if (o.next != 0) objects_[o.next].previous = static_cast<uint32_t>(index);
      p.first_child = static_cast<uint32_t>(index);
    }
    live_++;
    return static_cast<uint32_t>(index);
  }

  // Forgets a childless object.
  void Remove(uint32_t index) {
    Object& o = objects_[index];
    if (o.previous != 0) {
      objects_[o.previous].next = o.next;
    } else if (o.parent != 0) {
      objects_[o.parent].first_child = o.next;
    }
    if (o.next != 0) objects_[o.next].previous = o.previous;
    o = Object{};
    live_--;
  }

  Object& operator[](uint32_t index) { return objects_[index]; }
  const Object& operator[](uint32_t index) const { return objects_[index]; }
  uint32_t live() const { return live_; }
  bool Full() const { return live_ >= max_objects_; }

 private:
  const uint32_t max_objects_;
  uint32_t live_ = 0;
  std::vector<Object> objects_;  // [0] is no object
};

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_OBJECTS_H_
