#include "firmware/drivers/ranges.h"

#include <new>

namespace sluice::firmware {
namespace {

uint64_t Pages(uint64_t bytes) {
  return (bytes + RangeAllocator::kPage - 1) & ~(RangeAllocator::kPage - 1);
}

}  // namespace

RangeAllocator::RangeAllocator(uint64_t bytes) {
  Reset(bytes);
}

RangeAllocator::~RangeAllocator() {
  Reset(0);
}

void RangeAllocator::Reset(uint64_t bytes) {
  while (free_ != nullptr) {
    Node* next = free_->next;
    delete free_;
    free_ = next;
  }
  bytes &= ~(kPage - 1);
  if (bytes != 0) free_ = new Node{0, bytes, nullptr};
}

bool RangeAllocator::Allocate(uint64_t bytes, uint64_t* offset) {
  if (bytes == 0 || bytes > UINT64_MAX - kPage) return false;
  bytes = Pages(bytes);
  for (Node** link = &free_; *link != nullptr; link = &(*link)->next) {
    Node* node = *link;
    if (node->bytes < bytes) continue;
    *offset = node->offset;
    node->offset += bytes;
    node->bytes -= bytes;
    if (node->bytes == 0) {
      *link = node->next;
      delete node;
    }
    return true;
  }
  return false;
}

void RangeAllocator::Free(uint64_t offset, uint64_t bytes) {
  bytes = Pages(bytes);
  Node* before = nullptr;
  Node* after = free_;
  while (after != nullptr && after->offset < offset) {
    before = after;
    after = after->next;
  }
  Node* node;
  if (before != nullptr && before->offset + before->bytes == offset) {
    before->bytes += bytes;
    node = before;
  } else {
    node = new Node{offset, bytes, after};
    (before != nullptr ? before->next : free_) = node;
  }
  if (after != nullptr && node->offset + node->bytes == after->offset) {
    node->bytes += after->bytes;
    node->next = after->next;
    delete after;
  }
}

uint64_t RangeAllocator::free_bytes() const {
  uint64_t sum = 0;
  for (const Node* node = free_; node != nullptr; node = node->next) sum += node->bytes;
  return sum;
}

}  // namespace sluice::firmware
