/*
 * Jump into a 32-bit code segment, and enter from there.
 * The way in is the same int 0x80, but the code that a checker saw was 64-bit code.
 */
#include "tests/escape/escape.h"

ESCAPE(segment32)
{
	long ret;

	/* to 0x23, the kernel's 32-bit user segment; getpid; back to 0x33 */
	__asm__ volatile("subq $136, %%rsp\n\t"
			 "leaq 2f(%%rip), %%rcx\n\t"
			 "movl $20, %%eax\n\t"
			 "movq %%rsp, %%r12\n\t"
			 "leaq stack32_end(%%rip), %%rsp\n\t"
			 "pushq $0x23\n\t"
			 "leaq 1f(%%rip), %%rdx\n\t"
			 "pushq %%rdx\n\t"
			 "lretq\n"
			 ".code32\n"
			 "1:\n\t"
			 "int $0x80\n\t"
			 "pushl $0x33\n\t"
			 "pushl %%ecx\n\t"
			 "lretl\n"
			 ".code64\n"
			 "2:\n\t"
			 "movq %%r12, %%rsp\n\t"
			 "addq $136, %%rsp\n"
			 ".pushsection .bss\n\t"
			 ".balign 16\n\t"
			 ".skip 4096\n"
			 "stack32_end:\n\t"
			 ".skip 16\n"
			 ".popsection\n"
			 : "=a"(ret)
			 :
			 : "memory", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12");
	return (int)ret < 0 ? -(int)ret : 0;
}
