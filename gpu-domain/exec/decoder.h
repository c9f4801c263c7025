// File: decoder.h
//
// The toolbox of generated decoders: turns verified wire data of one command into C structures in the arena, checking
// counts, nulls, values and ids on the way. The first complaint sticks; nothing reaches the driver after it.
#ifndef SLUICE_GPU_DOMAIN_EXEC_DECODER_H_
#define SLUICE_GPU_DOMAIN_EXEC_DECODER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "flatbuf/vk/exec_types.h"
#include "flatbuf/vk/out_structs.h"
#include "flatbuf/vkgen/cast_raw.h"
#include "gpu-domain/exec/impl.h"

namespace sluice::exec {

using vk::BytesAs;
using vk::CopyAs;
using vk::FunctionCast;
using vk::HandleCast;
using vk::HandleValue;
using vk::ViewAs;

// The verifier looks at a vector's length field only; elements of 8 bytes may still lie 4 bytes off.
template <typename W>
bool ElementsAligned(const flatbuffers::Vector<W>* v) {
  return vk::IsAligned(v->Data(), alignof(std::remove_pointer_t<W>));
}

// An output structure as the schema's type.
template <typename Wire, typename C>
const Wire* WireStruct(const C* c) {
  return ViewAs<Wire>(c);
}

// Enums that the guest filled in are looked at as numbers until they are known to be values of their type: before that,
// even loading one is undefined behaviour.
template <typename T>
int32_t RawEnum(const T& e) {
  static_assert(sizeof(T) == 4);
  int32_t value;
  memcpy(&value, &e, 4);
  return value;
}
template <typename T>
uint32_t RawBits(const T& e) {
  return static_cast<uint32_t>(RawEnum(e));
}
// Specialised by the generated decoders: whether the number is one of T's values in the allowed features.
template <typename T>
bool ValidEnum(int32_t value);

// The most elements of a list that a reply carries.
inline constexpr uint32_t kMaxListed = 1024;

class Decoder {
 public:
  Decoder(Context::Impl& c, const char* command) : c_(c), command_(command), call_(c.MakeCall(0)) {}

  // ---- complaints
  bool Bad(const char* what) {
    if (what_ == nullptr) what_ = what;
    return false;
  }
  bool Exhausted(const char* what) {
    exhausted_ = true;
    return Bad(what);
  }
  absl::Status Error(const char* what) {
    Bad(what);
    return error();
  }
  // The complaint as a status.
  absl::Status error() const;
  // What a command without reply makes of its result: a failure loses the context, since nobody hears of it.
  absl::Status Done(VkResult result) const;
  // What a command with reply makes of it: only a lost device (or policy's word) loses the context.
  absl::Status Lost(VkResult result) const;

  // ---- the object that the command is called on
  template <typename T>
  bool Dispatch(uint64_t id, T* out) {
    const Object* o = c_.objects.Find(id, TypeOf<T>::value);
    if (o == nullptr) return Bad("unknown or stale id of the first argument");
    dispatch_index_ = ObjectTable::Index(id);
    device_ = o->device;
    *out = HandleCast<T>(o->handle);
    Rebind(id);
    return true;
  }
  uint32_t dispatch_index() const { return dispatch_index_; }
  uint32_t device() const { return device_; }
  Call& call() { return call_; }
  const InstanceTable* instance_vk() const { return call_.instance_vk; }
  const DeviceTable* device_vk() const { return call_.device_vk; }
  Context::Impl& context() { return c_; }
  // Index part of an id that was checked before.
  static uint32_t IndexOf(uint64_t id) { return ObjectTable::Index(id); }

  // ---- handles
  template <typename T>
  bool Handle(uint64_t id, bool optional, T* out, const char* what) {
    if (id == 0) return optional || Bad(what);
    const Object* o = c_.objects.Find(id, TypeOf<T>::value);
    if (o == nullptr || o->device != device_) return BadHandle(id, TypeOf<T>::value, what);
    *out = HandleCast<T>(o->handle);
    return true;
  }
  // An id in the place of a handle, in a private copy.
  template <typename T>
  bool FixHandle(T* handle, bool optional, const char* what) {
    const uint64_t id = HandleValue(*handle);
    *handle = VK_NULL_HANDLE;
    return Handle(id, optional, handle, what);
  }

  // The same for handles that may be undefined ([lenient]): what is not alive becomes null.
  template <typename T>
  void FixOrForget(T* handle) {
    const Object* o = c_.objects.Find(HandleValue(*handle), TypeOf<T>::value);
    *handle = o == nullptr || o->device != device_ ? VK_NULL_HANDLE : HandleCast<T>(o->handle);
  }

  // ---- memory
  template <typename T>
  T* New() {
    return NewArray<T>(1);
  }
  template <typename T>
  T* NewArray(uint64_t count) {
    T* p = c_.arena.New<T>(count);
    if (p == nullptr) Exhausted("message too large when decoded");
    return p;
  }
  uint8_t* NewBytes(uint64_t count) { return NewArray<uint8_t>(count); }
  // Takes `count` from what this message's size can justify, so that shared sub-tables cannot multiply work.
  bool Charge(uint64_t count) {
    if (count > c_.work_left) return Exhausted("message asks for more work than its size justifies");
    c_.work_left -= count;
    return true;
  }

  // ---- arrays. `count` is the Vulkan count; a missing vector counts as null.
  template <typename W>
  bool Counted(const flatbuffers::Vector<W>* v, uint64_t count, bool optional, const char* what) {
    if (v == nullptr) return count == 0 || optional || Bad(what);
    return (v->size() == count && ElementsAligned(v)) || Bad(what);
  }
  // Elements of the same layout on both sides: used where they lie.
  template <typename W, typename T>
  bool InPlace(const flatbuffers::Vector<W>* v, uint64_t count, bool optional, const T** out, const char* what) {
    if (!Counted(v, count, optional, what)) return false;
    if (v != nullptr && count != 0) {
      static_assert(sizeof(typename flatbuffers::IndirectHelper<W>::return_type) > 0);
      static_assert(flatbuffers::IndirectHelper<W>::element_stride == sizeof(T));
      *out = BytesAs<T>(v->Data());
    }
    return true;
  }
  template <typename W, typename T>
  bool Enums(const flatbuffers::Vector<W>* v, uint64_t count, bool optional, const T** out, const char* what) {
    if (!InPlace(v, count, optional, out, what) || !Charge(*out == nullptr ? 0 : count)) return false;
    for (uint64_t i = 0; *out != nullptr && i < count; i++) {
      if (!ValidEnum<T>(RawEnum((*out)[i]))) return Bad(what);
    }
    return true;
  }
  bool Flags(const VkFlags* flags, uint64_t count, VkFlags mask, const char* what) {
    if (flags == nullptr) return true;
    if (!Charge(count)) return false;
    for (uint64_t i = 0; i < count; i++) {
      if ((flags[i] & ~mask) != 0) return Bad(what);
    }
    return true;
  }
  template <typename T, typename F>
  bool CheckAll(const T* items, uint64_t count, F check) {
    if (items == nullptr) return true;
    if (!Charge(count)) return false;
    for (uint64_t i = 0; i < count; i++) {
      if (!check(items[i])) return false;
    }
    return true;
  }
  template <typename T>
  bool Handles(const flatbuffers::Vector<uint64_t>* v, uint64_t count, bool optional, bool elem_optional, const T** out,
               const char* what) {
    if (!Counted(v, count, optional, what)) return false;
    if (v == nullptr || count == 0) return true;
    if (!Charge(count)) return false;
    T* handles = NewArray<T>(count);
    if (handles == nullptr) return false;
    for (uint32_t i = 0; i < count; i++) {
      if (!Handle(v->Get(i), elem_optional, &handles[i], what)) return false;
    }
    *out = handles;
    return true;
  }
  // Command buffers in an array that was checked by Handles: recorded to the end, of that level.
  bool Executable(const flatbuffers::Vector<uint64_t>* v, VkCommandBufferLevel level, const char* what) {
    for (uint32_t i = 0; v != nullptr && i < v->size(); i++) {
      if (!IsExecutable(v->Get(i), level)) return Bad(what);
    }
    return true;
  }
  bool IsExecutable(uint64_t id, VkCommandBufferLevel level) const;
  // Plain structures with handles: copied, ids replaced.
  template <typename W, typename T, typename F>
  bool Fixed(const flatbuffers::Vector<W>* v, uint64_t count, bool optional, const T** out, const char* what, F fix) {
    const T* from = nullptr;
    if (!InPlace(v, count, optional, &from, what)) return false;
    return from == nullptr || CopyFixed(from, count, out, fix);
  }
  template <typename T, typename F>
  bool CopyFixed(const T* from, uint64_t count, const T** out, F fix) {
    if (!Charge(count)) return false;
    T* items = NewArray<T>(count);
    if (items == nullptr) return false;
    memcpy(static_cast<void*>(items), from, count * sizeof(T));
    for (uint64_t i = 0; i < count; i++) {
      if (!fix(&items[i])) return false;
    }
    *out = items;
    return true;
  }
  template <typename W, typename T, typename F>
  bool Tables(const flatbuffers::Vector<flatbuffers::Offset<W>>* v, uint64_t count, bool optional, const T** out,
              const char* what, F decode) {
    if (!Counted(v, count, optional, what)) return false;
    if (v == nullptr || count == 0) return true;
    if (!Charge(count)) return false;
    T* items = NewArray<T>(count);
    if (items == nullptr) return false;
    for (uint32_t i = 0; i < count; i++) {
      if (!decode(*v->Get(i), &items[i])) return false;
    }
    *out = items;
    return true;
  }
  template <typename P>
  bool Bytes(const flatbuffers::Vector<uint8_t>* v, uint64_t count, bool optional, P* out, const char* what) {
    if (!Counted(v, count, optional, what)) return false;
    if (v != nullptr && count != 0) *out = v->Data();
    return true;
  }
  template <typename T>
  bool FixedArray(const flatbuffers::Vector<T>* v, uint32_t count, T* out, const char* what) {
    if (v == nullptr || v->size() != count) return Bad(what);
    for (uint32_t i = 0; i < count; i++) out[i] = v->Get(i);
    return true;
  }

  // ---- pointers to one structure
  template <typename W, typename T>
  bool PointerInPlace(const W* in, bool optional, const T** out, const char* what) {
    if (in == nullptr) return optional || Bad(what);
    *out = ViewAs<T>(in);
    return true;
  }
  template <typename W, typename T, typename F>
  bool PointerFix(const W* in, bool optional, const T** out, const char* what, F fix) {
    if (in == nullptr) return optional || Bad(what);
    return CopyFixed(ViewAs<T>(in), 1, out, fix);
  }
  template <typename W, typename T, typename F>
  bool PointerTable(const W* in, bool optional, const T** out, const char* what, F decode) {
    if (in == nullptr) return optional || Bad(what);
    T* item = New<T>();
    if (item == nullptr || !Charge(1) || !decode(*in, item)) return false;
    *out = item;
    return true;
  }
  bool String(const flatbuffers::String* in, bool optional, const char** out, const char* what) {
    if (in == nullptr) return optional || Bad(what);
    *out = in->c_str();
    return true;
  }
  bool Strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* v, uint64_t count,
               const char* const** out, const char* what) {
    if (!Counted(v, count, false, what)) return false;
    if (v == nullptr || count == 0) return true;
    if (!Charge(count)) return false;
    const char** strings = NewArray<const char*>(count);
    if (strings == nullptr) return false;
    for (uint32_t i = 0; i < count; i++) strings[i] = v->Get(i)->c_str();
    *out = strings;
    return true;
  }

  // ---- output structures with sType (flatbuf/vk/out_structs.h)
  // `count` zeroed structures of allowed[0], each with a chain of the types that the guest named. Null after Bad.
  template <typename T>
  T* OutChain(absl::Span<const vk::OutStruct> allowed, const flatbuffers::Vector<int32_t>* types, uint64_t count) {
    return static_cast<T*>(OutBytes(allowed, types, count));
  }
  void* OutBytes(absl::Span<const vk::OutStruct> allowed, const flatbuffers::Vector<int32_t>* types, uint64_t count);
  // The same, filled in by the driver, as words of a reply; at most kMaxListed.
  flatbuffers::Offset<flatbuffers::Vector<uint64_t>> PackOut(flatbuffers::FlatBufferBuilder& fbb,
                                                             absl::Span<const vk::OutStruct> allowed, const void* first,
                                                             uint64_t count) const;

  // ---- ends of objects
  template <typename T>
  absl::Status Destroy(uint64_t id) {
    if (id == 0) return absl::OkStatus();
    const Object* o = c_.objects.Find(id, TypeOf<T>::value);
    if (o == nullptr && c_.objects.Failed(id, TypeOf<T>::value)) {
      c_.objects.Remove(ObjectTable::Index(id));
      return absl::OkStatus();
    }
    if (o == nullptr || o->device != device_) return Error("id of the object to destroy");
    c_.DestroyTree(ObjectTable::Index(id), true);
    return absl::OkStatus();
  }
  // vkDestroyInstance, vkDestroyDevice: the object is the first argument.
  template <typename T>
  absl::Status DestroyRoot(uint64_t id) {
    if (id == 0) return absl::OkStatus();
    T ignored;
    if (!Dispatch(id, &ignored)) return error();
    c_.DestroyTree(ObjectTable::Index(id), true);
    return absl::OkStatus();
  }
  // vkFree*: all out of the pool `parent`.
  template <typename T>
  absl::Status FreeAll(const flatbuffers::Vector<uint64_t>* ids, uint32_t parent) {
    if (ids != nullptr && !ElementsAligned(ids)) return Error("ids to free: alignment");
    for (uint32_t i = 0; ids != nullptr && i < ids->size(); i++) {
      const uint64_t id = ids->Get(i);
      if (id == 0) continue;
      const Object* o = c_.objects.Find(id, TypeOf<T>::value);
      if (o == nullptr && c_.objects.Failed(id, TypeOf<T>::value)) {
        c_.objects.Remove(ObjectTable::Index(id));
        continue;
      }
      if (o == nullptr || o->parent != parent || !MayFree(*o)) return Error("id of an object to free");
      c_.DestroyTree(ObjectTable::Index(id), true);
    }
    return absl::OkStatus();
  }
  // Queries of a pool whose id was checked before.
  bool QueriesFit(uint64_t pool, uint32_t first, uint32_t count) const;
  // Children of a pool whose contents the driver has just freed, or reset.
  void RemoveChildren(uint64_t id);
  void ResetChildren(uint64_t id);
  void ResetState(uint64_t id);

  // Each command of a stream has the arena for itself. Only for streams without anything decoded before them.
  void StartStreamCommand() {
    c_.arena.Reset();
    c_.commands++;
  }

 private:
  // An id that names nothing; or an object that the driver refused to make, which is the limit's fault and no protocol
  // error.
  bool BadHandle(uint64_t id, ObjectType type, const char* what);
  void Rebind(uint64_t id);
  bool MayFree(const Object& object) const;

  Context::Impl& c_;
  const char* const command_;
  Call call_;
  uint32_t dispatch_index_ = 0;
  uint32_t device_ = 0;
  const char* what_ = nullptr;
  bool exhausted_ = false;
  bool refused_object_ = false;
};

// Links extension structures in wire order; each type at most once, at most 128.
class ChainBuilder {
 public:
  ChainBuilder(Decoder& d, const void** first) : d_(d), first_(first) {}
  template <typename T>
  bool Add(T* link) {
    if (count_ == kMost) return d_.Bad("pNext: too long");
    for (uint32_t i = 0; i < count_; i++) {
      if (seen_[i] == link->sType) return d_.Bad("pNext: structure given twice");
    }
    seen_[count_++] = link->sType;
    auto* base = static_cast<VkBaseOutStructure*>(static_cast<void*>(link));
    if (last_ == nullptr) {
      *first_ = base;
    } else {
      last_->pNext = base;
    }
    last_ = base;
    return true;
  }

 private:
  Decoder& d_;
  const void** const first_;
  static constexpr uint32_t kMost = 128;
  VkBaseOutStructure* last_ = nullptr;
  uint32_t count_ = 0;
  VkStructureType seen_[kMost] = {};
};

// Ids taken before the driver is asked for objects, so that nothing is made that cannot be named. Gives them back
// unless committed.
template <typename T>
class Reservation {
 public:
  Reservation(Decoder& d, uint32_t parent, uint32_t aux) : d_(d), parent_(parent), aux_(aux) {}
  ~Reservation() {
    for (uint32_t i = 0; i < size_; i++) Drop(i);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  bool Add(uint64_t id) {
    if (!Make(1)) return false;
    return AddOne(id);
  }
  bool AddAll(const flatbuffers::Vector<uint64_t>* ids) {
    if (ids == nullptr || ids->size() == 0 || !ElementsAligned(ids)) return d_.Bad("ids: none");
    if (!d_.Charge(ids->size()) || !Make(ids->size())) return false;
    for (uint32_t i = 0; i < ids->size(); i++) {
      if (!AddOne(ids->Get(i))) return false;
    }
    return true;
  }
  uint32_t size() const { return size_; }
  T* out() { return handles_; }
  // Only the first `count` were made.
  void Limit(uint32_t count) { limit_ = count; }
  // In commands that nobody waits for: what the driver refuses to make keeps its id. Destroying it is no error, using
  // it ends the context.
  void KeepFailed() { keep_failed_ = true; }
  // Success, or `partial` success (pipelines: those that are not null): the objects live.
  bool Commit(VkResult result, bool partial) {
    const bool keep = result >= 0 || partial;
    for (uint32_t i = 0; i < size_; i++) {
      if (!keep && keep_failed_) {
        indices_[i] = 0;
        continue;
      }
      if (!keep || i >= limit_ || handles_[i] == VK_NULL_HANDLE) {
        Drop(i);
        ids_[i] = 0;
        continue;
      }
      Object& o = d_.context().objects[indices_[i]];
      o.handle = HandleValue(handles_[i]);
      indices_[i] = 0;
      if (!OnMade(d_, ObjectTable::Index(ids_[i]), handles_[i])) return false;
    }
    return true;
  }
  // After Commit: the ids that live, 0 for those that were not made.
  std::vector<uint64_t> Made() const { return std::vector<uint64_t>(ids_, ids_ + size_); }

 private:
  bool Make(uint64_t count) {
    handles_ = d_.NewArray<T>(count);
    indices_ = d_.NewArray<uint32_t>(count);
    ids_ = d_.NewArray<uint64_t>(count);
    return handles_ != nullptr && indices_ != nullptr && ids_ != nullptr;
  }
  bool AddOne(uint64_t id) {
    ObjectTable& objects = d_.context().objects;
    if (objects.Full()) return d_.Exhausted("too many objects");
    constexpr ObjectType kType = TypeOf<T>::value;
    if (kType == ObjectType::kInstance && d_.context().instance != 0) return d_.Bad("a context has one instance");
    const uint32_t index = objects.Insert(id, kType, parent_, d_.device(), aux_);
    if (index == 0) return d_.Bad("id of the new object is out of range or taken");
    if (kType == ObjectType::kDevice) objects[index].device = index;
    indices_[size_] = index;
    ids_[size_] = id;
    size_++;
    return true;
  }
  void Drop(uint32_t i) {
    if (indices_[i] != 0) d_.context().objects.Remove(indices_[i]);
    indices_[i] = 0;
  }

  Decoder& d_;
  const uint32_t parent_, aux_;
  T* handles_ = nullptr;
  uint32_t* indices_ = nullptr;
  uint64_t* ids_ = nullptr;
  uint32_t size_ = 0;
  uint32_t limit_ = UINT32_MAX;
  bool keep_failed_ = false;
};

// Tables are loaded when their owner is made.
bool OnMade(Decoder& d, uint32_t index, VkInstance instance);
bool OnMade(Decoder& d, uint32_t index, VkDevice device);
template <typename T>
bool OnMade(Decoder&, uint32_t, T) {
  return true;
}

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_DECODER_H_
