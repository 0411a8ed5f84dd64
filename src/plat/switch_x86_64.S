/* SPDX-License-Identifier: MIT */
/*
 * The switch between flows on x86-64 (System V ABI), with unwind information for every instruction.
 *
 * A suspended flow, and a call that can be escaped from, look the same from sp upwards:
 *
 *     sp + 0   mxcsr (4 bytes), x87 control word (2 bytes), 2 unused
 *     sp + 8   r15
 *     sp + 16  r14
 *     sp + 24  r13
 *     sp + 32  r12
 *     sp + 40  rbx
 *     sp + 48  rbp
 *     sp + 56  where to go on
 *
 * Leaving goes through a jump. A ret would be predicted to return to the caller of the flow that is
 * left, and the misprediction costs several times the whole switch. kin__call_raw does return with
 * ret, because its call and its ret are a pair.
 *
 * The control bits of the floating-point state belong to the flow, the status bits do not (the ABI
 * says the same). How to restore them cheaply depends on the machine, and kin__fp+8 says how
 * (context.c): 0 compares and loads only where they differ, because ldmxcsr with other sticky flags
 * than the current ones costs twenty times the whole switch on Intel; 1 loads mxcsr always, because
 * reading back what stmxcsr has just stored is what costs on AMD. kin__fp+0 and kin__fp+4 are the
 * control words that a task begins with. Pending x87 exceptions are cleared before another control
 * word is loaded, which might unmask them. All of this happens before the stack pointer moves:
 * below the old one nothing is safe from a signal handler afterwards.
 *
 * A user shadow stack is not kept: kin__context_supported says so at run time, and the GNU property
 * note at the end of this file does not name it, so that a linker does not mark a program that
 * contains this file as fit for one. The note does name indirect branch tracking: every place here
 * that an indirect branch reaches begins with endbr64, or the branch to it is notrack, as the jumps
 * are that land behind a call.
 *
 * The text is plain, for a tool that turns it into top-level asm: no preprocessor but the guard
 * around the whole and the one around the note, which a C file has from its compiler; sections
 * pushed and popped, comments of this kind only, no double quotes outside section directives, no
 * backslashes.
 */
#if defined(__x86_64__) && defined(__LP64__)

    .pushsection .text
    .hidden kin__fp
    .hidden kin__entry_returned
    .p2align 4

/* The same as kin__switch_raw below, for a caller that jumps here with the place to go on in rax:
 * nothing is left on the CPU's return stack then. */
    .globl kin__switch_near
    .hidden kin__switch_near
    .type kin__switch_near, @function
kin__switch_near:
    .cfi_startproc
    .cfi_def_cfa_offset 0
    .cfi_register rip, rax
    pushq %rax
    .cfi_endproc
    .size kin__switch_near, . - kin__switch_near

/* void *kin__switch_raw(void **save_sp rdi, void *to_sp rsi, void *pass rdx) */
    .globl kin__switch_raw
    .hidden kin__switch_raw
    .type kin__switch_raw, @function
kin__switch_raw:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    .cfi_remember_state
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movzwl 4(%rsp), %ecx
    cmpl $0, kin__fp+8(%rip)
    jne 3f
    movl (%rsp), %eax
    xorl (%rsi), %eax
    testl $0xffc0, %eax
    jne 3f
1:
    cmpw 4(%rsi), %cx
    jne 4f
2:
    movq %rsp, (%rdi)
    /* From here on this is the other flow, whose frame has the same shape. */
    movq %rsi, %rsp
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    movq %rdx, %rax
    movq %rdx, %rdi
    notrack jmp *%rcx
    .cfi_restore_state
3:
    ldmxcsr (%rsi)
    jmp 1b
4:
    fnclex
    fldcw 4(%rsi)
    jmp 2b
    .cfi_endproc
    .size kin__switch_raw, . - kin__switch_raw

    .p2align 4

/* The same as kin__jump_raw below, for a caller that jumps here with its own place in rax. */
    .globl kin__jump_near
    .hidden kin__jump_near
    .type kin__jump_near, @function
kin__jump_near:
    .cfi_startproc
    .cfi_def_cfa_offset 0
    .cfi_register rip, rax
    pushq %rax
    .cfi_endproc
    .size kin__jump_near, . - kin__jump_near

/* void kin__jump_raw(void *to_sp rdi, void *pass rsi), never returns. The current control words go
 * below the stack pointer, where a signal handler does not write (128 bytes are the flow's own). */
    .globl kin__jump_raw
    .hidden kin__jump_raw
    .type kin__jump_raw, @function
kin__jump_raw:
    .cfi_startproc
    endbr64
    .cfi_remember_state
    fnstcw -4(%rsp)
    movzwl -4(%rsp), %ecx
    cmpl $0, kin__fp+8(%rip)
    jne 3f
    stmxcsr -8(%rsp)
    movl -8(%rsp), %eax
    xorl (%rdi), %eax
    testl $0xffc0, %eax
    jne 3f
1:
    cmpw 4(%rdi), %cx
    jne 4f
2:
    movq %rdi, %rsp
    .cfi_def_cfa_offset 64
    .cfi_rel_offset rbp, 48
    .cfi_rel_offset rbx, 40
    .cfi_rel_offset r12, 32
    .cfi_rel_offset r13, 24
    .cfi_rel_offset r14, 16
    .cfi_rel_offset r15, 8
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    movq %rsi, %rax
    movq %rsi, %rdi
    notrack jmp *%rcx
    .cfi_restore_state
3:
    ldmxcsr (%rdi)
    jmp 1b
4:
    fnclex
    fldcw 4(%rdi)
    jmp 2b
    .cfi_endproc
    .size kin__jump_raw, . - kin__jump_raw

    .p2align 4

/* int kin__call_raw(void **escape_sp rdi, int (*fn)(void *) rsi, void *arg rdx). fn begins with the
 * control words that every task begins with; the caller gets its own back, whatever fn did. */
    .globl kin__call_raw
    .hidden kin__call_raw
    .type kin__call_raw, @function
kin__call_raw:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movzwl 4(%rsp), %ecx
    movq %rsp, (%rdi)
    cmpl $0, kin__fp+8(%rip)
    jne 3f
    movl (%rsp), %eax
    xorl kin__fp(%rip), %eax
    testl $0xffc0, %eax
    jne 3f
1:
    cmpw kin__fp+4(%rip), %cx
    jne 4f
2:
    movq %rdx, %rdi
    call *%rsi
    fnstcw -4(%rsp)
    movzwl -4(%rsp), %ecx
    cmpl $0, kin__fp+8(%rip)
    jne 7f
    stmxcsr -8(%rsp)
    movl -8(%rsp), %edx
    xorl (%rsp), %edx
    testl $0xffc0, %edx
    jne 7f
5:
    cmpw 4(%rsp), %cx
    jne 8f
6:
    /* fn kept the registers. */
    .cfi_remember_state
    addq $56, %rsp
    .cfi_adjust_cfa_offset -56
    .cfi_restore r15
    .cfi_restore r14
    .cfi_restore r13
    .cfi_restore r12
    .cfi_restore rbx
    .cfi_restore rbp
    ret
    .cfi_restore_state
3:
    ldmxcsr kin__fp(%rip)
    jmp 1b
4:
    fnclex
    fldcw kin__fp+4(%rip)
    jmp 2b
7:
    ldmxcsr (%rsp)
    jmp 5b
8:
    fnclex
    fldcw 4(%rsp)
    jmp 6b
    .cfi_endproc
    .size kin__call_raw, . - kin__call_raw

    .p2align 4

/* int kin__call_clean_raw(void **escape_sp rdi, int (*fn)(void *) rsi, void *arg rdx): the same for
 * a caller that is known to run with kin__fp: nothing has to be read or loaded before the call. */
    .globl kin__call_clean_raw
    .hidden kin__call_clean_raw
    .type kin__call_clean_raw, @function
kin__call_clean_raw:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    pushq kin__fp(%rip)
    .cfi_adjust_cfa_offset 8
    movq %rsp, (%rdi)
    movq %rdx, %rdi
    call *%rsi
    fnstcw -4(%rsp)
    movzwl -4(%rsp), %ecx
    cmpl $0, kin__fp+8(%rip)
    jne 7f
    stmxcsr -8(%rsp)
    movl -8(%rsp), %edx
    xorl (%rsp), %edx
    testl $0xffc0, %edx
    jne 7f
5:
    cmpw 4(%rsp), %cx
    jne 8f
6:
    .cfi_remember_state
    addq $56, %rsp
    .cfi_adjust_cfa_offset -56
    .cfi_restore r15
    .cfi_restore r14
    .cfi_restore r13
    .cfi_restore r12
    .cfi_restore rbx
    .cfi_restore rbp
    ret
    .cfi_restore_state
7:
    ldmxcsr (%rsp)
    jmp 5b
8:
    fnclex
    fldcw 4(%rsp)
    jmp 6b
    .cfi_endproc
    .size kin__call_clean_raw, . - kin__call_clean_raw

    .p2align 4

/* void kin__escape_raw(void *escape_sp rdi, int value esi), returns from kin__call_raw instead */
    .globl kin__escape_raw
    .hidden kin__escape_raw
    .type kin__escape_raw, @function
kin__escape_raw:
    .cfi_startproc
    endbr64
    .cfi_remember_state
    fnstcw -4(%rsp)
    movzwl -4(%rsp), %ecx
    cmpl $0, kin__fp+8(%rip)
    jne 3f
    stmxcsr -8(%rsp)
    movl -8(%rsp), %eax
    xorl (%rdi), %eax
    testl $0xffc0, %eax
    jne 3f
1:
    cmpw 4(%rdi), %cx
    jne 4f
2:
    movq %rdi, %rsp
    .cfi_def_cfa_offset 64
    .cfi_rel_offset rbp, 48
    .cfi_rel_offset rbx, 40
    .cfi_rel_offset r12, 32
    .cfi_rel_offset r13, 24
    .cfi_rel_offset r14, 16
    .cfi_rel_offset r15, 8
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    movl %esi, %eax
    notrack jmp *%rcx
    .cfi_restore_state
3:
    ldmxcsr (%rdi)
    jmp 1b
4:
    fnclex
    fldcw 4(%rdi)
    jmp 2b
    .cfi_endproc
    .size kin__escape_raw, . - kin__escape_raw

    .p2align 4

/*
 * Where a made flow begins: the frame that kin__make_raw lays goes on here, with the pass in rdi,
 * the function to call in r12 and its second argument in r13. The stack pointer is 16-aligned, rbp
 * is 0 and the return address is undefined, so that every unwinder stops here. An unwinder that
 * looks at a flow not yet begun looks one byte before kin__entry_raw: the nop is that byte. The
 * function is entered by a jump, because it will not return: what lies behind reports it if it
 * does.
 */
    .type kin__entry_pad, @function
kin__entry_pad:
    .cfi_startproc
    .cfi_undefined rip
    nop
    .globl kin__entry_raw
    .hidden kin__entry_raw
    .type kin__entry_raw, @function
kin__entry_raw:
    endbr64
    movq %r13, %rsi
    leaq 1f(%rip), %rax
    pushq %rax
    notrack jmp *%r12
1:
    call kin__entry_returned
    ud2
    .cfi_endproc
    .size kin__entry_raw, . - kin__entry_raw
    .size kin__entry_pad, . - kin__entry_pad

    .popsection

#ifdef __ASSEMBLER__
/* NT_GNU_PROPERTY_TYPE_0 of "GNU": one property, GNU_PROPERTY_X86_FEATURE_1_AND, whose value has
 * the bit of IBT. */
    .pushsection .note.gnu.property,"a"
    .p2align 3
    .long 4, 16, 5
    .long 0x00554e47
    .long 0xc0000002, 4
    .long 1, 0
    .popsection
#endif

#endif

    .pushsection .note.GNU-stack,"",%progbits
    .popsection
