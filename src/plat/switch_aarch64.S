/* SPDX-License-Identifier: MIT */
/*
 * The switch between flows on aarch64 (AAPCS64), with unwind information for every instruction.
 *
 * A suspended flow, and a call that can be escaped from, look the same from sp upwards:
 *
 *     sp + 0    x19 to x28, two by two
 *     sp + 80   x29 (frame pointer), x30 (where to go on)
 *     sp + 96   d8 to d15 (the ABI keeps the low halves of v8 to v15)
 *     sp + 160  fpcr, 8 unused
 *
 * Leaving goes through a jump, because a ret would be predicted to return to the caller of the flow
 * that is left. Code in which every landing of a jump must be marked (BTI) is the exception: a ret
 * is exempt from the marks, a jump is not, and where we land there is only a call before it.
 * kin__fp+8 says which (context.c). kin__call_raw returns with ret, because its call and its ret
 * are a pair.
 *
 * fpcr is written only where it differs, because writing it stalls. kin__fp+0 is the one that a
 * task begins with.
 *
 * A guarded control stack is not kept: kin__context_supported says so at run time, and the GNU
 * property note at the end of this file does not name it, so that a linker does not mark a program
 * that contains this file as fit for one. The note does name branch target identification: every
 * place here that an indirect branch reaches begins with a bti. Hint 34 is bti c, no operation
 * where there is none.
 *
 * The text is plain, for a tool that turns it into top-level asm: no preprocessor but the guard
 * around the whole and the one around the note, which a C file has from its compiler; sections
 * pushed and popped, comments of this kind only, no double quotes outside section directives, no
 * backslashes.
 */
#if defined(__aarch64__)

    .pushsection .text
    .hidden kin__fp
    .hidden kin__entry_returned
    .p2align 4

/* void *kin__switch_raw(void **save_sp x0, void *to_sp x1, void *pass x2) */
    .globl kin__switch_raw
    .hidden kin__switch_raw
    .type kin__switch_raw, %function
kin__switch_raw:
    .cfi_startproc
    hint #34
    sub sp, sp, #176
    .cfi_adjust_cfa_offset 176
    stp x19, x20, [sp, #0]
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    stp x21, x22, [sp, #16]
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    stp x23, x24, [sp, #32]
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    stp x25, x26, [sp, #48]
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    stp x27, x28, [sp, #64]
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    stp x29, x30, [sp, #80]
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    stp d8, d9, [sp, #96]
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    stp d10, d11, [sp, #112]
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    stp d12, d13, [sp, #128]
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    stp d14, d15, [sp, #144]
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x10, sp
    str x10, [x0]
    /* From here on this is the other flow, whose frame has the same shape. */
    mov sp, x1
    ldr x10, [sp, #160]
    cmp x9, x10
    b.ne 3f
1:
    .cfi_remember_state
    ldp x19, x20, [sp, #0]
    .cfi_restore x19
    .cfi_restore x20
    ldp x21, x22, [sp, #16]
    .cfi_restore x21
    .cfi_restore x22
    ldp x23, x24, [sp, #32]
    .cfi_restore x23
    .cfi_restore x24
    ldp x25, x26, [sp, #48]
    .cfi_restore x25
    .cfi_restore x26
    ldp x27, x28, [sp, #64]
    .cfi_restore x27
    .cfi_restore x28
    ldp x29, x30, [sp, #80]
    .cfi_restore x29
    .cfi_restore x30
    ldp d8, d9, [sp, #96]
    .cfi_restore d8
    .cfi_restore d9
    ldp d10, d11, [sp, #112]
    .cfi_restore d10
    .cfi_restore d11
    ldp d12, d13, [sp, #128]
    .cfi_restore d12
    .cfi_restore d13
    ldp d14, d15, [sp, #144]
    .cfi_restore d14
    .cfi_restore d15
    add sp, sp, #176
    .cfi_adjust_cfa_offset -176
    mov x0, x2
    adrp x11, kin__fp
    ldr w11, [x11, #:lo12:kin__fp+8]
    cbnz w11, 5f
    br x30
5:
    ret
    .cfi_restore_state
3:
    msr fpcr, x10
    b 1b
    .cfi_endproc
    .size kin__switch_raw, . - kin__switch_raw

    .p2align 4

/* void kin__jump_raw(void *to_sp x0, void *pass x1), never returns */
    .globl kin__jump_raw
    .hidden kin__jump_raw
    .type kin__jump_raw, %function
kin__jump_raw:
    .cfi_startproc
    hint #34
    mrs x9, fpcr
    mov sp, x0
    .cfi_def_cfa_offset 176
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152
    ldr x10, [sp, #160]
    cmp x9, x10
    b.ne 3f
1:
    .cfi_remember_state
    ldp x19, x20, [sp, #0]
    .cfi_restore x19
    .cfi_restore x20
    ldp x21, x22, [sp, #16]
    .cfi_restore x21
    .cfi_restore x22
    ldp x23, x24, [sp, #32]
    .cfi_restore x23
    .cfi_restore x24
    ldp x25, x26, [sp, #48]
    .cfi_restore x25
    .cfi_restore x26
    ldp x27, x28, [sp, #64]
    .cfi_restore x27
    .cfi_restore x28
    ldp x29, x30, [sp, #80]
    .cfi_restore x29
    .cfi_restore x30
    ldp d8, d9, [sp, #96]
    .cfi_restore d8
    .cfi_restore d9
    ldp d10, d11, [sp, #112]
    .cfi_restore d10
    .cfi_restore d11
    ldp d12, d13, [sp, #128]
    .cfi_restore d12
    .cfi_restore d13
    ldp d14, d15, [sp, #144]
    .cfi_restore d14
    .cfi_restore d15
    add sp, sp, #176
    .cfi_adjust_cfa_offset -176
    mov x0, x1
    adrp x11, kin__fp
    ldr w11, [x11, #:lo12:kin__fp+8]
    cbnz w11, 5f
    br x30
5:
    ret
    .cfi_restore_state
3:
    msr fpcr, x10
    b 1b
    .cfi_endproc
    .size kin__jump_raw, . - kin__jump_raw

    .p2align 4

/* int kin__call_raw(void **escape_sp x0, int (*fn)(void *) x1, void *arg x2). fn begins with the
 * control word that every task begins with; the caller gets its own back, whatever fn did. */
    .globl kin__call_raw
    .hidden kin__call_raw
    .type kin__call_raw, %function
kin__call_raw:
    .cfi_startproc
    hint #34
    sub sp, sp, #176
    .cfi_adjust_cfa_offset 176
    stp x19, x20, [sp, #0]
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    stp x21, x22, [sp, #16]
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    stp x23, x24, [sp, #32]
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    stp x25, x26, [sp, #48]
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    stp x27, x28, [sp, #64]
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    stp x29, x30, [sp, #80]
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    stp d8, d9, [sp, #96]
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    stp d10, d11, [sp, #112]
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    stp d12, d13, [sp, #128]
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    stp d14, d15, [sp, #144]
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x10, sp
    str x10, [x0]
    adrp x10, kin__fp
    ldr x10, [x10, #:lo12:kin__fp]
    cmp x9, x10
    b.ne 3f
1:
    mov x0, x2
    blr x1
    mrs x9, fpcr
    ldr x10, [sp, #160]
    cmp x9, x10
    b.ne 4f
2:
    /* fn kept the other registers. */
    .cfi_remember_state
    ldp x29, x30, [sp, #80]
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    .cfi_restore x29
    .cfi_restore x30
    .cfi_restore d8
    .cfi_restore d9
    .cfi_restore d10
    .cfi_restore d11
    .cfi_restore d12
    .cfi_restore d13
    .cfi_restore d14
    .cfi_restore d15
    add sp, sp, #176
    .cfi_adjust_cfa_offset -176
    ret
    .cfi_restore_state
3:
    msr fpcr, x10
    b 1b
4:
    msr fpcr, x10
    b 2b
    .cfi_endproc
    .size kin__call_raw, . - kin__call_raw

    .p2align 4

/* void kin__escape_raw(void *escape_sp x0, int value w1), returns from kin__call_raw instead */
    .globl kin__escape_raw
    .hidden kin__escape_raw
    .type kin__escape_raw, %function
kin__escape_raw:
    .cfi_startproc
    hint #34
    mrs x9, fpcr
    mov sp, x0
    .cfi_def_cfa_offset 176
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152
    ldr x10, [sp, #160]
    cmp x9, x10
    b.ne 3f
1:
    .cfi_remember_state
    ldp x19, x20, [sp, #0]
    .cfi_restore x19
    .cfi_restore x20
    ldp x21, x22, [sp, #16]
    .cfi_restore x21
    .cfi_restore x22
    ldp x23, x24, [sp, #32]
    .cfi_restore x23
    .cfi_restore x24
    ldp x25, x26, [sp, #48]
    .cfi_restore x25
    .cfi_restore x26
    ldp x27, x28, [sp, #64]
    .cfi_restore x27
    .cfi_restore x28
    ldp x29, x30, [sp, #80]
    .cfi_restore x29
    .cfi_restore x30
    ldp d8, d9, [sp, #96]
    .cfi_restore d8
    .cfi_restore d9
    ldp d10, d11, [sp, #112]
    .cfi_restore d10
    .cfi_restore d11
    ldp d12, d13, [sp, #128]
    .cfi_restore d12
    .cfi_restore d13
    ldp d14, d15, [sp, #144]
    .cfi_restore d14
    .cfi_restore d15
    add sp, sp, #176
    .cfi_adjust_cfa_offset -176
    mov w0, w1
    adrp x11, kin__fp
    ldr w11, [x11, #:lo12:kin__fp+8]
    cbnz w11, 5f
    br x30
5:
    ret
    .cfi_restore_state
3:
    msr fpcr, x10
    b 1b
    .cfi_endproc
    .size kin__escape_raw, . - kin__escape_raw

    .p2align 4

/*
 * Where a made flow begins: the frame that kin__make_raw lays goes on here, with the pass in x0,
 * the function to call in x19 and its second argument in x20. x29 is 0 and the return address is
 * undefined, so that every unwinder stops here. An unwinder that looks at a flow not yet begun
 * looks right before kin__entry_raw: the nop is that place. Hint 36 is bti j.
 */
    .type kin__entry_pad, %function
kin__entry_pad:
    .cfi_startproc
    .cfi_undefined x30
    nop
    .globl kin__entry_raw
    .hidden kin__entry_raw
    .type kin__entry_raw, %function
kin__entry_raw:
    hint #36
    mov x1, x20
    blr x19
    bl kin__entry_returned
    brk #1
    .cfi_endproc
    .size kin__entry_raw, . - kin__entry_raw
    .size kin__entry_pad, . - kin__entry_pad

    .popsection

#ifdef __ASSEMBLER__
/* NT_GNU_PROPERTY_TYPE_0 of "GNU": one property, GNU_PROPERTY_AARCH64_FEATURE_1_AND, whose value
 * has the bit of BTI. */
    .pushsection .note.gnu.property,"a"
    .p2align 3
    .long 4, 16, 5
    .long 0x00554e47
    .long 0xc0000000, 4
    .long 1, 0
    .popsection
#endif

#endif

    .pushsection .note.GNU-stack,"",%progbits
    .popsection
