// File: buffer.h
//
// A growable array of trivially copyable elements, for guests that have no std::vector. Freestanding; needs operator
// new.
//
//   Buffer<uint32_t> order;
//   order.Push(7);
//   memcpy(order.Extend(n), data, n * sizeof(uint32_t));
#ifndef SLUICE_FLATBUF_GUEST_BUFFER_H_
#define SLUICE_FLATBUF_GUEST_BUFFER_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <new>
#include <type_traits>

namespace sluice::guest {

template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::operator delete(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

  void Push(const T& value) {
    if (size_ == capacity_) Grow(size_ + 1);
    data_[size_++] = value;
  }
  // Adds `n` elements of unspecified value; returns the first.
  T* Extend(size_t n) {
    if (n > capacity_ - size_) Grow(size_ + n);
    T* first = data_ + size_;
    size_ += n;
    return first;
  }
  void Resize(size_t n, const T& value) {
    if (n > capacity_) Grow(n);
    for (size_t i = size_; i < n; i++) data_[i] = value;
    size_ = n;
  }
  void Pop() { size_--; }
  // Keeps the memory for the next use.
  void Clear() { size_ = 0; }
  // Inserts before element `i` (<= size), or removes it, in order.
  void Insert(size_t i, const T& value) {
    const T copy = value;
    Extend(1);
    memmove(data_ + i + 1, data_ + i, (size_ - 1 - i) * sizeof(T));
    data_[i] = copy;
  }
  void Remove(size_t i) {
    memmove(data_ + i, data_ + i + 1, (size_ - 1 - i) * sizeof(T));
    size_--;
  }
  // Removes the first `n` elements.
  void RemoveFront(size_t n) {
    memmove(data_, data_ + n, (size_ - n) * sizeof(T));
    size_ -= n;
  }

 private:
  void Grow(size_t need) {
    size_t capacity = capacity_ < 16 ? 16 : capacity_ * 2;
    if (capacity < need) capacity = need;
    T* data = static_cast<T*>(::operator new(capacity * sizeof(T)));
    if (size_ != 0) memcpy(data, data_, size_ * sizeof(T));
    ::operator delete(data_);
    data_ = data;
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_BUFFER_H_
