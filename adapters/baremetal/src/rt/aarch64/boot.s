// Entry: the first CPU, MMU off, at EL1 or EL2; X0 may be the device tree.
.section .text.boot, "ax"
.globl _start
_start:
    mov x20, x0
    msr daifset, #0xf
    mrs x9, currentel
    cmp x9, #(2 << 2)
    b.ne 1f
    // Down to EL1, 64-bit, with timers and system registers of the GIC left to it.
    mov x9, #(1 << 31)
    msr hcr_el2, x9
    mov x9, #3
    msr cnthctl_el2, x9
    msr cntvoff_el2, xzr
    mov x9, #0x33ff
    msr cptr_el2, x9
    msr hstr_el2, xzr
    mrs x9, midr_el1
    msr vpidr_el2, x9
    mrs x9, mpidr_el1
    msr vmpidr_el2, x9
    mov x9, #0xf
    msr S3_4_C12_C9_5, x9               // ICC_SRE_EL2
    isb
    mov x9, #0x3c5                      // EL1 with its own stack, everything masked
    msr spsr_el2, x9
    adr x9, 1f
    msr elr_el2, x9
    eret
1:  mov x9, #(3 << 20)                  // floating point
    msr cpacr_el1, x9
    isb
    ldr x9, =__stack_top
    mov sp, x9
    ldr x9, =__bss_start
    ldr x10, =__bss_end
2:  cmp x9, x10
    b.hs 3f
    stp xzr, xzr, [x9], #16
    b 2b
3:  // MAIR: 0 device nGnRnE, 1 normal write-back, 2 normal uncached.
    ldr x9, =0x44ff00
    msr mair_el1, x9
    // TCR: 48 bits, 4 KiB pages, cached walks, no upper half; as many physical bits as there are, up to 48.
    ldr x9, =(16 | (1 << 8) | (1 << 10) | (3 << 12) | (1 << 23))
    mrs x10, id_aa64mmfr0_el1
    and x10, x10, #0xf
    mov x11, #5
    cmp x10, x11
    csel x10, x10, x11, lo
    orr x9, x9, x10, lsl #32
    msr tcr_el1, x9
    ldr x9, =boot_level0
    msr ttbr0_el1, x9
    dsb ish
    tlbi vmalle1
    ic iallu
    dsb ish
    isb
    // SCTLR: the bits that are one, stack alignment, instruction cache, data cache, MMU.
    ldr x9, =0x30d0181d
    msr sctlr_el1, x9
    isb
    ldr x9, =vectors
    msr vbar_el1, x9
    isb
    mov x0, x20
    mov x29, xzr
    mov x30, xzr
    bl tombolo_start
4:  wfi
    b 4b

// Everything at its own address, 1 TiB in blocks of 1 GiB, but for the first two: RAM from 1 GiB on is normal memory,
// the rest is device memory that nothing is executed from. Not mapped: the first 2 MiB, and the 2 MiB below the stack.
// More RAM is added later.
.section .data.boot, "aw"
.balign 4096
boot_level0:
    .quad boot_level1 + 3
    .quad boot_level1 + 4096 + 3
    .fill 510, 8, 0
.globl boot_level1, boot_ram
boot_level1:
    .quad boot_devices + 3
    .quad boot_ram + 3
.set address, 0x80000000
.rept 1022
    .quad 0x0060000000000401 + address
    .set address, address + 0x40000000
.endr
boot_devices:
    .quad 0
.set address, 0x200000
.rept 511
    .quad 0x0060000000000401 + address
    .set address, address + 0x200000
.endr
boot_ram:
    .quad 0x40000705
    .quad 0
.set address, 0x40400000
.rept 510
    .quad 0x705 + address
    .set address, address + 0x200000
.endr

.section .bss.emergency, "aw", @nobits
.balign 16
    .skip 16384
emergency_top:

.section .text.vectors, "ax"
.balign 2048
vectors:
.set number, 0
.rept 16
    .balign 128
    sub sp, sp, #816
    // The stack's addresses have bit 22 set, those below it have not. Looked at without a free register.
    add sp, sp, x0
    sub x0, sp, x0
    tbz x0, #22, 1f
    sub x0, sp, x0
    sub sp, sp, x0
2:  stp x0, x1, [sp]
    mov x0, #number
    b common_vector
1:  sub x0, sp, x0
    msr tpidr_el1, x0
    ldr x0, =emergency_top - 816
    mov sp, x0
    mrs x0, tpidr_el1
    b 2b
    .set number, number + 1
.endr
.ltorg

// All general registers, ELR and SPSR, then floating point: handlers are compiled with it.
.balign 128
common_vector:
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x19, [sp, #144]
    stp x20, x21, [sp, #160]
    stp x22, x23, [sp, #176]
    stp x24, x25, [sp, #192]
    stp x26, x27, [sp, #208]
    stp x28, x29, [sp, #224]
    mrs x9, elr_el1
    mrs x10, spsr_el1
    stp x30, x9, [sp, #240]
    mrs x11, fpsr
    stp x10, x11, [sp, #256]
    mrs x11, fpcr
    str x11, [sp, #272]
    add x12, sp, #288
    stp q0, q1, [x12], #32
    stp q2, q3, [x12], #32
    stp q4, q5, [x12], #32
    stp q6, q7, [x12], #32
    stp q8, q9, [x12], #32
    stp q10, q11, [x12], #32
    stp q12, q13, [x12], #32
    stp q14, q15, [x12], #32
    stp q16, q17, [x12], #32
    stp q18, q19, [x12], #32
    stp q20, q21, [x12], #32
    stp q22, q23, [x12], #32
    stp q24, q25, [x12], #32
    stp q26, q27, [x12], #32
    stp q28, q29, [x12], #32
    stp q30, q31, [x12]
    mov x1, sp
    bl tombolo_interrupt
    add x12, sp, #288
    ldp q0, q1, [x12], #32
    ldp q2, q3, [x12], #32
    ldp q4, q5, [x12], #32
    ldp q6, q7, [x12], #32
    ldp q8, q9, [x12], #32
    ldp q10, q11, [x12], #32
    ldp q12, q13, [x12], #32
    ldp q14, q15, [x12], #32
    ldp q16, q17, [x12], #32
    ldp q18, q19, [x12], #32
    ldp q20, q21, [x12], #32
    ldp q22, q23, [x12], #32
    ldp q24, q25, [x12], #32
    ldp q26, q27, [x12], #32
    ldp q28, q29, [x12], #32
    ldp q30, q31, [x12]
    ldr x11, [sp, #272]
    msr fpcr, x11
    ldp x10, x11, [sp, #256]
    msr fpsr, x11
    msr spsr_el1, x10
    ldp x30, x9, [sp, #240]
    msr elr_el1, x9
    ldp x28, x29, [sp, #224]
    ldp x26, x27, [sp, #208]
    ldp x24, x25, [sp, #192]
    ldp x22, x23, [sp, #176]
    ldp x20, x21, [sp, #160]
    ldp x18, x19, [sp, #144]
    ldp x16, x17, [sp, #128]
    ldp x14, x15, [sp, #112]
    ldp x12, x13, [sp, #96]
    ldp x10, x11, [sp, #80]
    ldp x8, x9, [sp, #64]
    ldp x6, x7, [sp, #48]
    ldp x4, x5, [sp, #32]
    ldp x2, x3, [sp, #16]
    ldp x0, x1, [sp]
    add sp, sp, #816
    eret
