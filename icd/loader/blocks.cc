#include "icd/loader/blocks.h"

#include <cstring>

namespace sluice::icd {
namespace {

// sType, padding, pNext.
constexpr size_t kHead = sizeof(VkBaseOutStructure);

void CopyBody(void* to, const void* from, size_t size) {
  memcpy(static_cast<uint8_t*>(to) + kHead, static_cast<const uint8_t*>(from) + kHead, size - kHead);
}

}  // namespace

void Blocks::Make(const vk::OutStruct* structures, size_t count) {
  blocks_.clear();
  for (size_t i = 0; i < count; i++) {
    Block block;
    block.type = static_cast<VkStructureType>(structures[i].type);
    block.size = structures[i].size;
    block.words = std::make_unique<uint64_t[]>((block.size + 7) / 8);
    blocks_.push_back(std::move(block));
  }
  for (size_t i = 0; i < count; i++) {
    auto* head = static_cast<VkBaseOutStructure*>(At(i));
    head->sType = blocks_[i].type;
    head->pNext = i + 1 < count ? static_cast<VkBaseOutStructure*>(At(i + 1)) : nullptr;
  }
}

void* Blocks::FindBytes(VkStructureType type) {
  for (Block& block : blocks_) {
    if (block.type == type) return block.words.get();
  }
  return nullptr;
}

size_t Blocks::SizeOf(VkStructureType type) const {
  for (const Block& block : blocks_) {
    if (block.type == type) return block.size;
  }
  return 0;
}

const void* Blocks::Bytes(VkStructureType type) const {
  for (const Block& block : blocks_) {
    if (block.type == type) return block.words.get();
  }
  return nullptr;
}

void Blocks::CopyTo(void* out) const {
  auto* head = static_cast<VkBaseOutStructure*>(out);
  CopyBody(head, blocks_[0].words.get(), blocks_[0].size);
  for (VkBaseOutStructure* s = head->pNext; s != nullptr; s = s->pNext) {
    for (const Block& block : blocks_) {
      if (block.type == s->sType) CopyBody(s, block.words.get(), block.size);
    }
  }
}

}  // namespace sluice::icd
