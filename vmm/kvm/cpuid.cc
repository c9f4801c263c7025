#include "vmm/kvm/cpuid.h"

#include <algorithm>
#include <bit>

namespace sluice::kvm {
namespace {

kvm_cpuid_entry2* Find(CpuidTable& table, uint32_t function, uint32_t index) {
  return const_cast<kvm_cpuid_entry2*>(FindCpuid(table, function, index));
}

// `value` in bits [low, low + count) of `reg`.
void SetBits(uint32_t& reg, uint32_t low, uint32_t count, uint32_t value) {
  const uint32_t mask = ((uint64_t{1} << count) - 1) << low;
  reg = (reg & ~mask) | ((value << low) & mask);
}

// Leaves 0xb and 0x1f: threads of a core, cores of the package, end.
void AddTopologyLeaf(CpuidTable& table, uint32_t function, uint32_t vcpu, uint32_t thread_bits, uint32_t package_bits,
                     uint32_t threads, uint32_t vcpus) {
  std::erase_if(table, [function](const kvm_cpuid_entry2& e) { return e.function == function; });
  enum : uint32_t { kInvalid = 0, kThread = 1, kCore = 2 };
  const struct {
    uint32_t bits, count, type;
  } levels[] = {{thread_bits, threads, kThread}, {package_bits, vcpus, kCore}, {0, 0, kInvalid}};
  for (uint32_t i = 0; i < 3; ++i) {
    kvm_cpuid_entry2 entry = {};
    entry.function = function;
    entry.index = i;
    entry.flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
    entry.eax = levels[i].bits;
    entry.ebx = levels[i].count;
    entry.ecx = i | (levels[i].type << 8);
    entry.edx = vcpu;
    table.push_back(entry);
  }
}

}  // namespace

const kvm_cpuid_entry2* FindCpuid(const CpuidTable& table, uint32_t function, uint32_t index) {
  for (const kvm_cpuid_entry2& e : table) {
    if (e.function != function) continue;
    if ((e.flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) == 0 || e.index == index) return &e;
  }
  return nullptr;
}

CpuidTable MakeVcpuCpuid(const CpuidTable& supported, const CpuTopology& topology, uint32_t vcpu) {
  CpuidTable table = supported;
  const uint32_t threads = std::clamp<uint32_t>(std::bit_floor(std::max(topology.threads_per_core, 1u)), 1, 128);
  const uint32_t vcpus = std::clamp<uint32_t>(topology.vcpus, 1, 255);
  // APIC ids are consecutive: bits below thread_bits name the thread, bits below package_bits the core and thread.
  const uint32_t thread_bits = std::countr_zero(threads);
  const uint32_t package_bits = std::bit_width(vcpus - 1);
  const uint32_t ids = uint32_t{1} << package_bits;
  const uint32_t core_ids = std::max(1u, ids / threads);

  if (auto* leaf = Find(table, 1, 0)) {
    SetBits(leaf->ebx, 24, 8, vcpu);
    SetBits(leaf->ebx, 16, 8, vcpus > 1 ? ids : 1);
    SetBits(leaf->edx, 28, 1, vcpus > 1 ? 1 : 0);  // HTT: the count above is valid
    SetBits(leaf->ecx, 31, 1, 1);                  // hypervisor present
    if (topology.tsc_deadline_timer) SetBits(leaf->ecx, 24, 1, 1);
  }
  for (kvm_cpuid_entry2& e : table) {
    if (e.function == 4 || e.function == 0x8000001d) {
      const uint32_t type = e.eax & 0x1f, level = (e.eax >> 5) & 7;
      if (type == 0) continue;
      // First and second level caches belong to a core, the last level to the package.
      SetBits(e.eax, 14, 12, (level >= 3 ? ids : std::min(threads, ids)) - 1);
      if (e.function == 4) SetBits(e.eax, 26, 6, std::min(core_ids, 64u) - 1);
    }
  }
  const kvm_cpuid_entry2* root = FindCpuid(table, 0);
  const uint32_t max_leaf = root != nullptr ? root->eax : 0;
  const bool has_1f = FindCpuid(table, 0x1f) != nullptr;
  if (max_leaf >= 0xb) AddTopologyLeaf(table, 0xb, vcpu, thread_bits, package_bits, threads, vcpus);
  if (max_leaf >= 0x1f && has_1f) AddTopologyLeaf(table, 0x1f, vcpu, thread_bits, package_bits, threads, vcpus);
  if (auto* leaf = Find(table, 0x80000008, 0)) {
    SetBits(leaf->ecx, 0, 8, vcpus - 1);
    SetBits(leaf->ecx, 12, 4, package_bits);
  }
  if (auto* leaf = Find(table, 0x8000001e, 0)) {
    leaf->eax = vcpu;
    SetBits(leaf->ebx, 0, 8, vcpu >> thread_bits);
    SetBits(leaf->ebx, 8, 8, threads - 1);
    leaf->ecx = 0;  // one node
  }
  return table;
}

}  // namespace sluice::kvm
