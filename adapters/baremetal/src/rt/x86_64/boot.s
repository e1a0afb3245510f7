# Entry of the x86/HVM direct boot protocol: 32-bit protected mode, paging off, EBX = start information.
.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18                      # name and description size, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long _start32

.section .bss.boot, "aw", @nobits
    .balign 4096
    .globl boot_pml4, boot_pdpt, boot_pd, boot_pt
boot_pml4: .skip 4096
boot_pdpt: .skip 4096
boot_pd: .skip 4 * 4096                 # the first 4 GiB in pages of 2 MiB
boot_pt: .skip 4096                     # the first 2 MiB in pages of 4 KiB

.section .rodata.boot, "a"
    .balign 8
boot_gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
boot_gdtr: .word 23
    .quad boot_gdt

.section .text.boot, "ax"
.code32
.globl _start32
_start32:
    cli
    cld
    movl $__stack_top, %esp
    movl $boot_pdpt + 3, boot_pml4
    movl $boot_pd + 3, %eax
    movl $boot_pdpt, %edi
    movl $4, %ecx
1:  movl %eax, (%edi)
    addl $4096, %eax
    addl $8, %edi
    loop 1b
    movl $0x83, %eax                    # present, writable, large
    movl $boot_pd, %edi
    movl $2048, %ecx
2:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 2b
    movl $boot_pml4, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax                     # PAE
    movl %eax, %cr4
    movl $0xc0000080, %ecx              # EFER
    rdmsr
    orl $0x100, %eax                    # LME
    wrmsr
    movl %cr0, %eax
    orl $0x80010001, %eax               # PG, WP, PE
    movl %eax, %cr0
    lgdt boot_gdtr
    ljmp $8, $3f
.code64
3:  movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorl %eax, %eax
    movw %ax, %fs
    movw %ax, %gs
    movl %ebx, %edi
    xorl %ebp, %ebp
    call tombolo_start
    ud2

# One stub for each vector: an error code (0 where the CPU pushes none), the vector, then all registers.
.altmacro
.macro stub vector
    .balign 16
    .if (\vector == 8) || (\vector >= 10 && \vector <= 14) || (\vector == 17) || (\vector == 21) || (\vector == 29) || (\vector == 30)
    .else
    pushq $0
    .endif
    pushq $\vector
    jmp common_stub
.endm

.globl vector_stubs
.balign 16
vector_stubs:
.set number, 0
.rept 256
    stub %number
    .set number, number + 1
.endr

common_stub:
    pushq %rax
    pushq %rbx
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %rbp
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    cld
    movq %rsp, %rdi
    call tombolo_interrupt
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rbp
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rbx
    popq %rax
    addq $16, %rsp
    iretq
