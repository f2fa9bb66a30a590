/*
 * The program that chambers are measured with: ends at once; with an argument, or where it
 * is linked with libraries (BENCH_DYNAMIC), it says that it is there and waits to be killed;
 * with two it sends back each byte that comes over its link.
 */
#ifdef BENCH_DYNAMIC
#include <unistd.h>

int
main(void)
{
	(void)!write(1, "", 1);
	for (;;)
		pause();
}
#else
static long
call(long n, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

void begin(long *stack);

void
begin(long *stack)
{
	char byte;

	if (stack[0] > 2)
		while (call(0, 3, (long)&byte, 1) == 1)
			call(1, 3, (long)&byte, 1);
	else if (stack[0] > 1)
		for (;;)
			call(34, 0, 0, 0); /* pause */
	call(231, 0, 0, 0); /* exit_group */
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n\thlt\n");
#endif
