# Entry of every guest. The VMM starts it in long mode at CPL0 with an identity map of user pages, interrupts off, and %rbx
# pointing to the start information (vmm/boot/start_info.h). This file loads tables that are complete at link time, turns the
# local APIC on and goes to CPL3, where GuestMain runs. What stays at CPL0 is small: interrupt stubs, the sleep gate, and the
# way to the exception report.
#
# The section starts at IMAGE_BASE (link.ld asserts it), so that gates and descriptors are constants of the assembler.
.set IMAGE_BASE, 0x100000
.set STUBS, 0x200              # 256 stubs of 16 bytes
.set GDT, 0x1200
.set TSS, 0x1280
.set TSS_BYTES, 0x68 + 8192 + 1
.set IDT, 0x3300
.set GATES, 256

.set FIRST_DEVICE_VECTOR, 0x20 # interrupts.h: kFirstVector
.set SLEEP_VECTOR, 3           # int3: the one software interrupt that CPL3 may use everywhere

.set KERNEL_CODE, 0x08
.set USER_CODE, 0x18 | 3
.set USER_DATA, 0x20 | 3
.set TSS_SELECTOR, 0x28

.set MSR_KVM_SYSTEM_TIME_NEW, 0x4b564d01
.set APIC_SPURIOUS, 0xfee000f0
.set APIC_EOI, 0xfee000b0

.section .start,"awx"
section_start:
.globl _start
_start:
    mov $1, %eax
    out %eax, $0xe1                    # the first instruction: the VMM takes the time
    mov $kernel_stack_top, %esp
    lgdt gdt_pointer
    lidt idt_pointer
    mov $TSS_SELECTOR, %eax
    ltr %ax
    mov $APIC_SPURIOUS, %eax
    movl $0x1ff, (%rax)                # local APIC on, spurious vector 0xff

    mov %rbx, start_info
    # kvmclock, if this is KVM: its page says how fast the TSC is (clock.cc).
    mov $0x40000000, %eax
    cpuid
    cmp $0x4b4d564b, %ebx              # "KVMK"
    jne 1f
    mov $0x40000001, %eax
    cpuid
    bt $3, %eax                        # KVM_FEATURE_CLOCKSOURCE2
    jnc 1f
    mov $MSR_KVM_SYSTEM_TIME_NEW, %ecx
    mov $kvm_clock_page + 1, %eax
    xor %edx, %edx
    wrmsr
1:
    pushq $USER_DATA
    pushq $user_stack_top
    pushq $0x202                       # interrupts on
    pushq $USER_CODE
    pushq $user_start
    iretq

user_start:
    xor %ebp, %ebp
    call StartGuest
    ud2                                # it does not return

# void SleepGate(const volatile uint64_t* word, uint64_t seen): see interrupts.h.
.globl SleepGate
SleepGate:
    int3
    ret

# The gate behind int3, at CPL0 with interrupts off. sti takes effect after the next instruction: no interrupt can slip in
# between the comparison and hlt.
sleep_gate:
    cmp %rsi, (%rdi)
    jne 1f
    sti
    hlt
    cli
1:  iretq

interrupt_done:
    push %rax
    mov $APIC_EOI, %eax
    movl $0, (%rax)
    pop %rax
spurious:
    iretq

# Stack: vector, error code, rip, cs, rflags, rsp, ss. Above it the general registers in the order of ExceptionFrame.
exception:
    push %rax
    push %rcx
    push %rdx
    push %rbx
    push %rbp
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %r12
    push %r13
    push %r14
    push %r15
    mov %cr2, %rax
    push %rax
    mov %rsp, %rdi
    cld
    and $-16, %rsp
    call ReportException
    ud2                                # it does not return

# Device vectors count and acknowledge; exceptions push what the processor has not; 0xff is the spurious interrupt, which has
# no EOI.
.org STUBS
.set v, 0
.rept GATES
    .org STUBS + v * 16
    .if v == SLEEP_VECTOR
        jmp sleep_gate
    .elseif v == 0xff
        jmp spurious
    .elseif v >= FIRST_DEVICE_VECTOR
        incq interrupt_counts + (v - FIRST_DEVICE_VECTOR) * 8
        jmp interrupt_done
    .else
        .if !(v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21 || v == 29 || v == 30)
            push $0
        .endif
        push $v
        jmp exception
    .endif
    .set v, v + 1
.endr

.org GDT
    .quad 0
    .quad 0x00af9b000000ffff           # kernel code, 64 bits
    .quad 0x00cf93000000ffff           # kernel data
    .quad 0x00affb000000ffff           # user code, 64 bits
    .quad 0x00cff3000000ffff           # user data
    .word (TSS_BYTES - 1) & 0xffff, (IMAGE_BASE + TSS) & 0xffff
    .byte ((IMAGE_BASE + TSS) >> 16) & 0xff, 0x89, 0, 0
    .quad 0
gdt_pointer:
    .word 7 * 8 - 1
    .quad IMAGE_BASE + GDT
idt_pointer:
    .word GATES * 16 - 1
    .quad IMAGE_BASE + IDT

# Task state: the stack for interrupts from CPL3, and an I/O permission bitmap that is all zero: CPL3 may use every port.
.org TSS
    .long 0
    .quad kernel_stack_top
    .org TSS + 0x66
    .word 0x68
    .org TSS + 0x68 + 8192
    .byte 0xff

.org IDT
.globl interrupt_gates
interrupt_gates:
.set v, 0
.rept GATES
    .word (IMAGE_BASE + STUBS + v * 16) & 0xffff, KERNEL_CODE
    .if v == SLEEP_VECTOR
        .word 0xee00                   # interrupt gate, present, callable from CPL3
    .else
        .word 0x8e00                   # interrupt gate, present
    .endif
    .word (IMAGE_BASE + STUBS + v * 16) >> 16
    .quad 0
    .set v, v + 1
.endr

.section .bss
.balign 64
.globl start_info
start_info: .skip 8
.balign 64
.globl kvm_clock_page
kvm_clock_page: .skip 64
.balign 64
.globl interrupt_counts
interrupt_counts: .skip (GATES - FIRST_DEVICE_VECTOR) * 8
.balign 16
.skip 8192
kernel_stack_top:
.balign 4096
.skip 262144
user_stack_top:

.section .note.GNU-stack,"",@progbits
