// File: abi.h
//
// The only file that includes <linux/kvm.h>. Up to kernel 6.3 the header's __DECLARE_FLEX_ARRAY holds an empty struct,
// which has size 1 in C++ (0 in C): kvm_cpuid2, kvm_msrs and others get a wrong size, and the ioctl numbers made of it
// are wrong too. The macro is replaced before the header sees it, and the sizes are asserted below.
#ifndef SLUICE_VMM_KVM_ABI_H_
#define SLUICE_VMM_KVM_ABI_H_

#include <linux/stddef.h>
#undef __DECLARE_FLEX_ARRAY
#define __DECLARE_FLEX_ARRAY(TYPE, NAME) TYPE NAME[0]
#include <linux/kvm.h>

static_assert(sizeof(kvm_cpuid2) == 8);
static_assert(sizeof(kvm_msrs) == 8);
static_assert(sizeof(kvm_msr_list) == 4);
static_assert(sizeof(kvm_irq_routing) == 8);
static_assert(sizeof(kvm_signal_mask) == 4);
static_assert(sizeof(kvm_coalesced_mmio_ring) == 8);
static_assert(sizeof(kvm_reg_list) == 8);
static_assert(sizeof(kvm_stats_desc) == 16);
static_assert(sizeof(kvm_pmu_event_filter) == 32);
static_assert(sizeof(kvm_xsave) == 4096);
static_assert(KVM_SET_CPUID2 == _IOW(KVMIO, 0x90, char[8]));
static_assert(KVM_SET_GSI_ROUTING == _IOW(KVMIO, 0x6a, char[8]));

// Newer than Debian 12's headers.
#ifndef KVM_EXIT_MEMORY_FAULT
#define KVM_EXIT_MEMORY_FAULT 39
#endif
// What KVM does about a guest's PAT on Intel processors: ignores it, unless this is disabled (Linux 6.16).
#ifndef KVM_X86_QUIRK_IGNORE_GUEST_PAT
#define KVM_X86_QUIRK_IGNORE_GUEST_PAT (1 << 9)
#endif

#endif  // SLUICE_VMM_KVM_ABI_H_
