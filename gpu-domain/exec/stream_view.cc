#include "gpu-domain/exec/stream_view.h"

#include <cstring>

#include "flatbuf/vkgen/cast_raw.h"

namespace sluice::exec {
namespace {

// The fields of CommandStream before its columns, as indices into the vtable.
enum Field : uint32_t { kCommandBuffer, kBeginAt, kEnd, kOrder, kPool, kFirstColumn };
constexpr uint32_t kVtableHead = 4;

class Table {
 public:
  explicit Table(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get(uint64_t at) const {
    T value;
    memcpy(&value, bytes_.data() + at, sizeof(value));
    return value;
  }

  // Finds the root table and its vtable.
  bool Open() {
    if (bytes_.size() < 12) return false;
    table_ = Get<uint32_t>(0);
    if (table_ < 4 || table_ % 4 != 0 || table_ > bytes_.size() - 4) return false;
    const int64_t vtable = static_cast<int64_t>(table_) - Get<int32_t>(table_);
    if (vtable < 0 || vtable % 2 != 0 || vtable > static_cast<int64_t>(bytes_.size()) - kVtableHead) return false;
    vtable_ = static_cast<uint64_t>(vtable);
    vtable_bytes_ = Get<uint16_t>(vtable_);
    table_bytes_ = Get<uint16_t>(vtable_ + 2);
    return vtable_bytes_ >= kVtableHead && vtable_bytes_ % 2 == 0 && vtable_bytes_ <= bytes_.size() - vtable_ &&
           table_bytes_ >= 4 && table_bytes_ <= bytes_.size() - table_;
  }
  uint32_t fields() const { return (vtable_bytes_ - kVtableHead) / 2; }
  // Where the field lies, from the start of the message; 0: absent.
  uint64_t At(uint32_t field) const {
    if (field >= fields()) return 0;
    const uint16_t offset = Get<uint16_t>(vtable_ + kVtableHead + 2 * field);
    return offset == 0 ? 0 : table_ + offset;
  }
  template <typename T>
  bool Scalar(uint32_t field, T* out) const {
    const uint64_t at = At(field);
    if (at == 0) return true;
    if (!Inside(at, sizeof(T))) return false;
    *out = Get<T>(at);
    return true;
  }
  // A vector of elements that are `size` bytes long, at `alignment`.
  bool Vector(uint64_t at, uint32_t size, uint32_t alignment, const uint8_t** data, uint32_t* length) const {
    if (!Inside(at, 4)) return false;
    const uint32_t offset = Get<uint32_t>(at);
    const uint64_t vector = at + offset;
    if (offset == 0 || vector % 4 != 0 || vector > bytes_.size() - 4 || vector < table_) return false;
    *length = Get<uint32_t>(vector);
    *data = bytes_.data() + vector + 4;
    return uint64_t{*length} * size <= bytes_.size() - vector - 4 && (vector + 4) % alignment == 0;
  }

 private:
  // The field lies in the table, at its own alignment.
  bool Inside(uint64_t at, uint32_t size) const {
    return at >= table_ + 4 && at - table_ <= table_bytes_ && size <= table_bytes_ - (at - table_) && at % size == 0;
  }

  const absl::Span<const uint8_t> bytes_;
  uint64_t table_ = 0, vtable_ = 0;
  uint32_t vtable_bytes_ = 0, table_bytes_ = 0;
};

}  // namespace

bool ReadStream(absl::Span<const uint8_t> payload, StreamView* stream) {
  Table table(payload);
  uint8_t end = 0;
  if (!vk::IsAligned(payload.data(), 8) || !table.Open() || !table.Scalar(kCommandBuffer, &stream->command_buffer) ||
      !table.Scalar(kBeginAt, &stream->begin_at) || !table.Scalar(kEnd, &end)) {
    return false;
  }
  stream->end = end != 0;
  const uint8_t* data = nullptr;
  uint32_t length = 0;
  if (const uint64_t at = table.At(kOrder); at != 0) {
    if (!table.Vector(at, 2, 2, &data, &length)) return false;
    stream->order = absl::MakeConstSpan(vk::BytesAs<uint16_t>(data), length);
  }
  if (const uint64_t at = table.At(kPool); at != 0) {
    if (!table.Vector(at, 8, 8, &data, &length)) return false;
    stream->pool = absl::MakeConstSpan(vk::BytesAs<uint64_t>(data), length);
  }
  const auto columns = static_cast<uint32_t>(kStreamTable.size());
  for (uint32_t field = kFirstColumn; field < table.fields(); field++) {
    const uint64_t at = table.At(field);
    if (at == 0) continue;
    if (field - kFirstColumn >= columns) return false;
    const StreamColumn& kind = kStreamTable[field - kFirstColumn];
    Column& column = stream->columns[kind.kind];
    if (!table.Vector(at, kind.row_bytes, kind.alignment, &column.next, &column.left)) return false;
    column.row_bytes = kind.row_bytes;
    stream->rows += column.left;
  }
  return true;
}

}  // namespace sluice::exec
