// File: aml.h
//
// ACPI Machine Language by hand: each function returns the bytes of one construct (ACPI 6.5, chapter 20), and what
// contains others takes their bytes. Enough for a static namespace: names, scopes, devices, packages, resources.
//
//   Bytes dsdt = aml::Scope("\\_SB", aml::Device("COM1", aml::Join({
//       aml::Name("_HID", aml::EisaId("PNP0501")),
//       aml::Name("_CRS", aml::Resources({aml::IoPorts(0x3f8, 8), aml::EdgeInterrupt(4)}))})));
//
// Arguments are this program's own, never a guest's: what does not fit the format is our bug (abort).
#ifndef SLUICE_VMM_BOOT_AML_H_
#define SLUICE_VMM_BOOT_AML_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice::boot::aml {

using Bytes = std::vector<uint8_t>;

Bytes Join(std::initializer_list<Bytes> parts);

// --- objects ---
Bytes Integer(uint64_t value);
Bytes String(absl::string_view text);
// "PNP0A08": three capital letters, four hexadecimal digits.
Bytes EisaId(absl::string_view id);
// At most 255 elements.
Bytes Package(const std::vector<Bytes>& elements);

// --- namespace; `path` is a name of 1 to 4 characters, or "\\" and one ---
Bytes Name(absl::string_view path, const Bytes& value);
Bytes Scope(absl::string_view path, const Bytes& body);
Bytes Device(absl::string_view path, const Bytes& body);

// --- resource descriptors (chapter 6.4) ---
// A buffer of descriptors with its end tag.
Bytes Resources(std::initializer_list<Bytes> descriptors);
Bytes IoPorts(uint16_t start, uint8_t count);
Bytes FixedMemory32(uint32_t start, uint32_t size);
// Edge-triggered, active high, not shared.
Bytes EdgeInterrupt(uint32_t gsi);
// What a bridge forwards.
Bytes BusNumbers(uint16_t first, uint16_t last);
Bytes IoWindow(uint16_t start, uint32_t size);
Bytes MemoryWindow32(uint32_t start, uint32_t size);
Bytes MemoryWindow64(uint64_t start, uint64_t size);

}  // namespace sluice::boot::aml

#endif  // SLUICE_VMM_BOOT_AML_H_
