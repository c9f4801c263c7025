#include "vmm/boot/acpi.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/aml.h"

namespace sluice::boot {
namespace {

using aml::Bytes;
using memory::GuestAddress;

constexpr char kOemId[] = "SLUICE";
constexpr char kOemTableId[] = "SLUICEVM";
constexpr size_t kHeaderBytes = 36;
constexpr size_t kRsdpBytes = 36;
constexpr uint32_t kMaxXapicId = 254;  // 255 is the broadcast

// Appends little-endian numbers and text.
class Writer {
 public:
  Writer& U8(uint64_t v) { return Number(v, 1); }
  Writer& U16(uint64_t v) { return Number(v, 2); }
  Writer& U32(uint64_t v) { return Number(v, 4); }
  Writer& U64(uint64_t v) { return Number(v, 8); }
  // `text`, NUL-padded to `bytes`.
  Writer& Text(absl::string_view text, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) bytes_.push_back(i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
    return *this;
  }
  Writer& Zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  Writer& Raw(const Bytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  // A Generic Address Structure (5.2.3.2) for a byte-wide port; 0: an empty one.
  Writer& PortRegister(uint16_t port) {
    if (port == 0) return Zeros(12);
    return U8(1).U8(8).U8(0).U8(1).U64(port);  // system I/O, 8 bits wide, byte access
  }
  Bytes Take() { return std::move(bytes_); }
  size_t size() const { return bytes_.size(); }

 private:
  Writer& Number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return *this;
  }
  Bytes bytes_;
};

uint8_t Checksum(const uint8_t* bytes, size_t count) {
  uint8_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum = static_cast<uint8_t>(sum + bytes[i]);
  return static_cast<uint8_t>(-sum);
}

// A system description table: header (5.2.6) and body.
Bytes Table(absl::string_view signature, uint8_t revision, const Bytes& body) {
  Bytes table = Writer()
                    .Text(signature, 4)
                    .U32(kHeaderBytes + body.size())
                    .U8(revision)
                    .U8(0)  // checksum
                    .Text(kOemId, 6)
                    .Text(kOemTableId, 8)
                    .U32(1)
                    .Text("SLCE", 4)
                    .U32(1)
                    .Raw(body)
                    .Take();
  table[9] = Checksum(table.data(), table.size());
  return table;
}

Bytes Dsdt(const AcpiOptions& o) {
  using namespace aml;  // NOLINT(google-build-using-namespace): a small language of its own
  Bytes windows = BusNumbers(0, 0);
  if (o.window32.has_value()) {
    windows = Join({windows, MemoryWindow32(static_cast<uint32_t>(o.window32->start().value()),
                                            static_cast<uint32_t>(o.window32->size()))});
  }
  if (o.window64.has_value()) {
    windows = Join({windows, MemoryWindow64(o.window64->start().value(), o.window64->size())});
  }
  Bytes devices =
      Device("PCI0", Join({Name("_HID", EisaId("PNP0A08")), Name("_CID", EisaId("PNP0A03")), Name("_SEG", Integer(0)),
                           Name("_BBN", Integer(0)), Name("_UID", Integer(0)), Name("_CRS", Resources({windows}))}));
  // The ECAM belongs to nobody else.
  const auto ecam = static_cast<uint32_t>(o.ecam.value());
  devices = Join({devices, Device("MBRD", Join({Name("_HID", EisaId("PNP0C02")), Name("_UID", Integer(0)),
                                                Name("_CRS", Resources({FixedMemory32(ecam, 1 << 20)}))}))});
  if (o.serial_port != 0) {
    devices = Join(
        {devices,
         Device("COM1", Join({Name("_HID", EisaId("PNP0501")), Name("_UID", Integer(1)), Name("_STA", Integer(0xf)),
                              Name("_CRS", Resources({IoPorts(o.serial_port, 8), EdgeInterrupt(o.serial_gsi)}))}))});
  }
  if (o.panic_port != 0) {
    devices = Join({devices, Device("PEVT", Join({Name("_HID", String("QEMU0001")), Name("_STA", Integer(0xf)),
                                                  Name("_CRS", Resources({IoPorts(o.panic_port, 1)}))}))});
  }
  const Bytes off = Package({Integer(kSleepTypeOff), Integer(0), Integer(0), Integer(0)});
  return Table("DSDT", 2, Join({Scope("\\_SB", devices), Name("\\_S5", off)}));
}

// Section 5.2.9.
Bytes Fadt(const AcpiOptions& o, GuestAddress dsdt) {
  // IA-PC boot flags: none of the legacy devices; VGA must not be probed, ASPM must not be used, there is no CMOS RTC.
  constexpr uint16_t kNoVga = 1 << 2, kNoAspm = 1 << 4, kNoCmosRtc = 1 << 5;
  constexpr uint32_t kWbinvd = 1 << 0, kPowerButtonControl = 1 << 4, kSleepButtonControl = 1 << 5;
  constexpr uint32_t kResetSupported = 1 << 10, kHardwareReduced = 1 << 20;
  Writer w;
  w.U32(0).U32(dsdt.value());  // FIRMWARE_CTRL, DSDT
  w.Zeros(109 - kHeaderBytes - w.size());
  w.U16(kNoVga | kNoAspm | kNoCmosRtc).U8(0);  // offset 109
  w.U32(kWbinvd | kPowerButtonControl | kSleepButtonControl | kResetSupported | kHardwareReduced);
  w.PortRegister(o.reset_port).U8(o.reset_value);  // offset 116
  w.U16(0).U8(5);                                  // Arm boot flags, minor version
  w.U64(0).U64(dsdt.value());                      // offset 132: X_FIRMWARE_CTRL, X_DSDT
  w.Zeros(8 * 12);                                 // X_PM1a_EVT_BLK .. X_GPE1_BLK: none
  w.PortRegister(o.sleep_control_port).PortRegister(o.sleep_status_port);
  w.U64(0);  // hypervisor vendor
  return Table("FACP", 6, w.Take());
}

// Section 5.2.12.
Bytes Madt(const AcpiOptions& o) {
  Writer w;
  w.U32(o.local_apic.value()).U32(0);  // flags: no 8259
  constexpr uint32_t kEnabled = 1;
  bool x2apic = false;
  for (size_t i = 0; i < o.apic_ids.size(); ++i) {
    const uint32_t id = o.apic_ids[i];
    if (id <= kMaxXapicId) {
      w.U8(0).U8(8).U8(i).U8(id).U32(kEnabled);
    } else {
      x2apic = true;
      w.U8(9).U8(16).U16(0).U32(id).U32(kEnabled).U32(i);
    }
  }
  w.U8(1).U8(12).U8(0).U8(0).U32(o.ioapic.value()).U32(0);
  // LINT1 of every processor is NMI.
  w.U8(4).U8(6).U8(0xff).U16(0).U8(1);
  if (x2apic) w.U8(0xa).U8(12).U16(0).U32(0xffff'ffff).U8(1).Zeros(3);
  return Table("APIC", 5, w.Take());
}

// PCI Firmware Specification 3.3, section 4.1.2: bus 0 alone, so that nobody scans 255 others.
Bytes Mcfg(const AcpiOptions& o) {
  return Table("MCFG", 1, Writer().Zeros(8).U64(o.ecam.value()).U16(0).U8(0).U8(0).Zeros(4).Take());
}

// Section 5.2.16.
Bytes Srat(const AcpiOptions& o) {
  constexpr uint32_t kEnabled = 1;
  Writer w;
  w.U32(1).Zeros(8);
  for (size_t i = 0; i < o.apic_ids.size(); ++i) {
    const uint32_t id = o.apic_ids[i], node = o.cpu_nodes[i];
    if (id <= kMaxXapicId) {
      w.U8(0).U8(16).U8(node).U8(id).U32(kEnabled).U8(0).U8(node >> 8).U8(node >> 16).U8(node >> 24).U32(0);
    } else {
      w.U8(2).U8(24).U16(0).U32(node).U32(id).U32(kEnabled).U32(0).U32(0);
    }
  }
  for (const AcpiMemoryRange& m : o.memory) {
    w.U8(1).U8(40).U32(m.node).U16(0).U64(m.range.start().value()).U64(m.range.size());
    w.U32(0).U32(kEnabled).U64(0);
  }
  return Table("SRAT", 3, w.Take());
}

bool SeveralNodes(const AcpiOptions& o) {
  return std::any_of(o.memory.begin(), o.memory.end(), [&](const auto& m) { return m.node != o.memory[0].node; });
}

absl::Status Check(const AcpiOptions& o, GuestAddress place) {
  if (o.apic_ids.empty()) return absl::InvalidArgumentError("ACPI: no processor");
  if (std::set<uint32_t>(o.apic_ids.begin(), o.apic_ids.end()).size() != o.apic_ids.size()) {
    return absl::InvalidArgumentError("ACPI: an APIC id is there twice");
  }
  const struct {
    absl::string_view name;
    GuestAddress address;
  } low[] = {{"the tables", place}, {"local_apic", o.local_apic}, {"ioapic", o.ioapic}, {"ecam", o.ecam}};
  for (const auto& [name, address] : low) {
    if (address.value() >= 4 * memory::kGiB - memory::kMiB) {
      return absl::InvalidArgumentError(absl::StrCat("ACPI: ", name, " at ", address.ToString(), ", want below 4 GiB"));
    }
  }
  if (!place.IsAligned(16)) return absl::InvalidArgumentError("ACPI: the place is not aligned to 16 bytes");
  if (o.window32.has_value() && o.window32->last().value() >= 4 * memory::kGiB) {
    return absl::InvalidArgumentError(absl::StrCat("ACPI: window32 ", o.window32->ToString(), " is not below 4 GiB"));
  }
  if (o.sleep_control_port == 0 || o.sleep_status_port == 0 || o.reset_port == 0) {
    return absl::InvalidArgumentError("ACPI: sleep control, sleep status and reset need ports");
  }
  if (SeveralNodes(o) && o.cpu_nodes.size() != o.apic_ids.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ACPI: ", o.cpu_nodes.size(), " nodes for ", o.apic_ids.size(), " processors"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AcpiTables> BuildAcpiTables(const AcpiOptions& options, GuestAddress place) {
  SLUICE_RETURN_IF_ERROR(Check(options, place));
  AcpiTables tables;
  tables.bytes.resize(kRsdpBytes);  // first, written last
  // Appends a table and says where it is.
  const auto add = [&](const Bytes& table) {
    tables.bytes.resize(*CheckedAlignUp(tables.bytes.size(), 16));
    const GuestAddress at(place.value() + tables.bytes.size());
    tables.bytes.insert(tables.bytes.end(), table.begin(), table.end());
    return at;
  };
  std::vector<GuestAddress> listed;
  const GuestAddress dsdt = add(Dsdt(options));
  listed.push_back(add(Fadt(options, dsdt)));
  listed.push_back(add(Madt(options)));
  listed.push_back(add(Mcfg(options)));
  if (SeveralNodes(options)) listed.push_back(add(Srat(options)));
  Writer entries;
  for (const GuestAddress address : listed) entries.U64(address.value());
  const GuestAddress xsdt = add(Table("XSDT", 1, entries.Take()));

  // Section 5.2.5.3; the first checksum covers the first 20 bytes.
  Bytes rsdp = Writer()
                   .Text("RSD PTR ", 8)
                   .U8(0)
                   .Text(kOemId, 6)
                   .U8(2)
                   .U32(0)  // no RSDT
                   .U32(kRsdpBytes)
                   .U64(xsdt.value())
                   .U8(0)
                   .Zeros(3)
                   .Take();
  rsdp[8] = Checksum(rsdp.data(), 20);
  rsdp[32] = Checksum(rsdp.data(), rsdp.size());
  std::copy(rsdp.begin(), rsdp.end(), tables.bytes.begin());
  tables.rsdp = place;
  return tables;
}

}  // namespace sluice::boot
