#include "vmm/boot/aml.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"

namespace sluice::boot::aml {
namespace {

constexpr uint8_t kZeroOp = 0x00, kOneOp = 0x01, kNameOp = 0x08, kBytePrefix = 0x0a, kWordPrefix = 0x0b;
constexpr uint8_t kDwordPrefix = 0x0c, kStringPrefix = 0x0d, kQwordPrefix = 0x0e, kScopeOp = 0x10, kBufferOp = 0x11;
constexpr uint8_t kPackageOp = 0x12, kExtPrefix = 0x5b, kDeviceOp = 0x82;

// Arguments are this program's own.
void Must(bool condition) {
  if (!condition) std::abort();
}

void Put(Bytes& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void Append(Bytes& to, const Bytes& from) {
  for (const uint8_t byte : from) to.push_back(byte);
}

// PkgLength counts itself: 1 byte up to 63, else 4 bits in the first byte and 8 in each of 1 to 3 more.
Bytes PkgLength(size_t content) {
  Bytes bytes;
  if (content + 1 <= 0x3f) {
    bytes.push_back(static_cast<uint8_t>(content + 1));
    return bytes;
  }
  for (int more = 1; more <= 3; ++more) {
    const uint64_t total = content + 1 + static_cast<uint64_t>(more);
    if (total >> (4 + 8 * more) != 0) continue;
    bytes.push_back(static_cast<uint8_t>(more << 6 | (total & 0xf)));
    Put(bytes, total >> 4, more);
    return bytes;
  }
  Must(false);
  return bytes;
}

Bytes Packaged(std::initializer_list<uint8_t> opcode, const Bytes& content) {
  Bytes bytes(opcode);
  Append(bytes, PkgLength(content.size()));
  Append(bytes, content);
  return bytes;
}

// One NameSeg, perhaps with the root prefix; padded with '_'.
Bytes NameString(absl::string_view path) {
  Bytes bytes;
  if (!path.empty() && path.front() == '\\') {
    bytes.push_back('\\');
    path.remove_prefix(1);
  }
  Must(!path.empty() && path.size() <= 4);
  for (size_t i = 0; i < 4; ++i) bytes.push_back(i < path.size() ? static_cast<uint8_t>(path[i]) : '_');
  return bytes;
}

// Address space descriptors (6.4.3.5): `width` bytes per number.
enum : uint8_t { kMemorySpace = 0, kIoSpace = 1, kBusSpace = 2 };
Bytes AddressSpace(uint8_t tag, int width, uint8_t space, uint8_t type_flags, uint64_t first, uint64_t last) {
  constexpr uint8_t kProducerFixed = 0x0c;  // minimum and maximum are fixed
  Bytes bytes = {tag};
  Put(bytes, static_cast<uint64_t>(3 + 5 * width), 2);
  Append(bytes, {space, kProducerFixed, type_flags});
  Put(bytes, 0, width);  // granularity
  Put(bytes, first, width);
  Put(bytes, last, width);
  Put(bytes, 0, width);  // translation
  Put(bytes, last - first + 1, width);
  return bytes;
}

}  // namespace

Bytes Join(std::initializer_list<Bytes> parts) {
  Bytes bytes;
  for (const Bytes& part : parts) Append(bytes, part);
  return bytes;
}

Bytes Integer(uint64_t value) {
  if (value == 0) return {kZeroOp};
  if (value == 1) return {kOneOp};
  Bytes bytes;
  const int width = value <= 0xff ? 1 : value <= 0xffff ? 2 : value <= 0xffff'ffff ? 4 : 8;
  bytes.push_back(width == 1 ? kBytePrefix : width == 2 ? kWordPrefix : width == 4 ? kDwordPrefix : kQwordPrefix);
  Put(bytes, value, width);
  return bytes;
}

Bytes String(absl::string_view text) {
  Bytes bytes;
  bytes.push_back(kStringPrefix);
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  bytes.push_back(0);
  return bytes;
}

Bytes EisaId(absl::string_view id) {
  Must(id.size() == 7);
  // Three letters of 5 bits, four digits of 4, most significant first (chapter 19.6.36).
  uint32_t value = 0;
  for (int i = 0; i < 3; ++i) {
    Must(absl::ascii_isupper(static_cast<unsigned char>(id[i])));
    value = value << 5 | static_cast<uint32_t>(id[i] - 0x40);
  }
  for (int i = 3; i < 7; ++i) {
    const auto c = static_cast<unsigned char>(id[i]);
    Must(absl::ascii_isxdigit(c));
    value = value << 4 | static_cast<uint32_t>(absl::ascii_isdigit(c) ? c - '0' : absl::ascii_toupper(c) - 'A' + 10);
  }
  Bytes bytes = {kDwordPrefix};
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(value >> shift));
  return bytes;
}

Bytes Package(const std::vector<Bytes>& elements) {
  Must(elements.size() <= 255);
  Bytes content = {static_cast<uint8_t>(elements.size())};
  for (const Bytes& element : elements) Append(content, element);
  return Packaged({kPackageOp}, content);
}

Bytes Name(absl::string_view path, const Bytes& value) {
  return Join({{kNameOp}, NameString(path), value});
}

Bytes Scope(absl::string_view path, const Bytes& body) {
  return Packaged({kScopeOp}, Join({NameString(path), body}));
}

Bytes Device(absl::string_view path, const Bytes& body) {
  return Packaged({kExtPrefix, kDeviceOp}, Join({NameString(path), body}));
}

Bytes Resources(std::initializer_list<Bytes> descriptors) {
  Bytes content = Join(descriptors);
  Append(content, {0x79, 0x00});  // end tag; 0: no checksum
  return Packaged({kBufferOp}, Join({Integer(content.size()), content}));
}

Bytes IoPorts(uint16_t start, uint8_t count) {
  Bytes bytes = {0x47, 0x01};  // 16-bit decode
  Put(bytes, start, 2);
  Put(bytes, start, 2);
  Append(bytes, {0x01, count});  // alignment, length
  return bytes;
}

Bytes FixedMemory32(uint32_t start, uint32_t size) {
  Bytes bytes = {0x86, 0x09, 0x00, 0x01};  // writable
  Put(bytes, start, 4);
  Put(bytes, size, 4);
  return bytes;
}

Bytes EdgeInterrupt(uint32_t gsi) {
  Bytes bytes = {0x89, 0x06, 0x00, 0x03, 0x01};  // consumer, edge; one interrupt
  Put(bytes, gsi, 4);
  return bytes;
}

Bytes BusNumbers(uint16_t first, uint16_t last) {
  return AddressSpace(0x88, 2, kBusSpace, 0, first, last);
}

Bytes IoWindow(uint16_t start, uint32_t size) {
  constexpr uint8_t kEntireRange = 0x03;
  return AddressSpace(0x87, 4, kIoSpace, kEntireRange, start, start + uint64_t{size} - 1);
}

Bytes MemoryWindow32(uint32_t start, uint32_t size) {
  constexpr uint8_t kWritable = 0x01;
  return AddressSpace(0x87, 4, kMemorySpace, kWritable, start, start + uint64_t{size} - 1);
}

Bytes MemoryWindow64(uint64_t start, uint64_t size) {
  constexpr uint8_t kPrefetchableWritable = 0x07;
  return AddressSpace(0x8a, 8, kMemorySpace, kPrefetchableWritable, start, start + size - 1);
}

}  // namespace sluice::boot::aml
