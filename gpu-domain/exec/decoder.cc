#include "gpu-domain/exec/decoder.h"

#include "flatbuf/vk/exec_dispatch.h"
#include "gpu-domain/exec/checks.h"

namespace sluice::exec {

absl::Status Decoder::error() const {
  const std::string text = absl::StrCat(command_, ": ", what_ == nullptr ? "refused" : what_,
                                        refused_object_ ? ": an object that the driver had refused to make" : "");
  return exhausted_ ? absl::ResourceExhaustedError(text) : absl::InvalidArgumentError(text);
}

absl::Status Decoder::Lost(VkResult result) const {
  if (!call_.lost.ok()) return call_.lost;
  if (result == VK_ERROR_DEVICE_LOST) return absl::AbortedError(absl::StrCat(command_, ": VK_ERROR_DEVICE_LOST"));
  return absl::OkStatus();
}

absl::Status Decoder::Done(VkResult result) const {
  if (absl::Status lost = Lost(result); !lost.ok()) return lost;
  if (result < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(command_, ": failed with VkResult ", static_cast<int>(result),
                                                     ", and the guest does not wait for an answer"));
  }
  return absl::OkStatus();
}

bool Decoder::BadHandle(uint64_t id, ObjectType type, const char* what) {
  if (!c_.objects.Failed(id, type)) return Bad(what);
  refused_object_ = true;
  return Exhausted(what);
}

void Decoder::Rebind(uint64_t id) {
  call_.device_vk = device_ == 0 ? nullptr : c_.devices[c_.objects[device_].aux].get();
  call_.dispatch_id = id;
}

bool Decoder::IsExecutable(uint64_t id, VkCommandBufferLevel level) const {
  const Object* o = c_.objects.Find(id, ObjectType::kCommandBuffer);
  return o != nullptr && (o->aux & kStateMask) == kExecutable && (o->aux & ~kStateMask) == LevelAux(level);
}

bool Decoder::MayFree(const Object& object) const {
  return object.type != ObjectType::kDescriptorSet ||
         (c_.objects[object.parent].aux & VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT) != 0;
}

bool Decoder::QueriesFit(uint64_t pool, uint32_t first, uint32_t count) const {
  const uint32_t queries = c_.objects[ObjectTable::Index(pool)].aux & 0xffffff;
  return count != 0 && first < queries && count <= queries - first;
}

void Decoder::RemoveChildren(uint64_t id) {
  const uint32_t index = ObjectTable::Index(id);
  while (c_.objects[index].first_child != 0) c_.objects.Remove(c_.objects[index].first_child);
}

void Decoder::ResetChildren(uint64_t id) {
  for (uint32_t i = c_.objects[ObjectTable::Index(id)].first_child; i != 0; i = c_.objects[i].next) {
    c_.objects[i].aux &= ~kStateMask;
  }
}

void Decoder::ResetState(uint64_t id) {
  c_.objects[ObjectTable::Index(id)].aux &= ~kStateMask;
}

namespace {

uint32_t OutSize(absl::Span<const vk::OutStruct> allowed, int32_t type) {
  for (const vk::OutStruct& s : allowed) {
    if (s.type == type) return s.size;
  }
  return 0;
}

}  // namespace

void* Decoder::OutBytes(absl::Span<const vk::OutStruct> allowed, const flatbuffers::Vector<int32_t>* types,
                        uint64_t count) {
  const uint32_t links = types == nullptr ? 0 : types->size();
  if (types != nullptr && !ElementsAligned(types)) {
    Bad("types to fill in: alignment");
    return nullptr;
  }
  for (uint32_t i = 0; i < links; i++) {
    const int32_t type = types->Get(i);
    if (type == allowed[0].type || OutSize(allowed, type) == 0) {
      Bad("unknown structure to fill in");
      return nullptr;
    }
    for (uint32_t j = 0; j < i; j++) {
      if (types->Get(j) == type) {
        Bad("structure to fill in named twice");
        return nullptr;
      }
    }
  }
  uint8_t* first = NewBytes(count * allowed[0].size);
  for (uint64_t i = 0; first != nullptr && i < count; i++) {
    void* at = first + i * allowed[0].size;
    auto* last = static_cast<VkBaseOutStructure*>(at);
    last->sType = static_cast<VkStructureType>(allowed[0].type);
    for (uint32_t j = 0; j < links; j++) {
      void* link = NewBytes(OutSize(allowed, types->Get(j)));
      if (link == nullptr) return nullptr;
      last->pNext = static_cast<VkBaseOutStructure*>(link);
      last = last->pNext;
      last->sType = static_cast<VkStructureType>(types->Get(j));
    }
  }
  return first;
}

flatbuffers::Offset<flatbuffers::Vector<uint64_t>> Decoder::PackOut(flatbuffers::FlatBufferBuilder& fbb,
                                                                    absl::Span<const vk::OutStruct> allowed,
                                                                    const void* first, uint64_t count) const {
  std::vector<uint64_t> words;
  for (uint64_t i = 0; i < count; i++) {
    const void* at = static_cast<const uint8_t*>(first) + i * allowed[0].size;
    for (auto* s = static_cast<const VkBaseInStructure*>(at); s != nullptr; s = s->pNext) {
      const size_t place = words.size();
      words.resize(place + OutSize(allowed, static_cast<int32_t>(s->sType)) / 8);
      memcpy(words.data() + place, s, (words.size() - place) * 8);
      words[place + 1] = 0;  // pNext
    }
  }
  return fbb.CreateVector(words);
}

bool OnMade(Decoder& d, uint32_t index, VkInstance instance) {
  Context::Impl& c = d.context();
  c.instance = index;
  return LoadInstanceTable(c.policy->GetInstanceProcAddr(), instance, &c.instance_table) ||
         d.Bad("the driver lacks an instance command");
}

bool OnMade(Decoder& d, uint32_t index, VkDevice device) {
  Context::Impl& c = d.context();
  auto table = std::make_unique<DeviceTable>();
  const bool complete = LoadDeviceTable(c.instance_table.GetDeviceProcAddr, device, table.get());
  size_t slot = 0;
  while (slot < c.devices.size() && c.devices[slot] != nullptr) slot++;
  if (slot == c.devices.size()) c.devices.emplace_back();
  c.devices[slot] = std::move(table);
  c.objects[index].aux = static_cast<uint32_t>(slot);
  return complete || d.Bad("the driver lacks a device command");
}

}  // namespace sluice::exec
