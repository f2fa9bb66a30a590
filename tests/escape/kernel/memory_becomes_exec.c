/*
 * Write into memory, then make it executable.
 * The same in two steps, as JIT compilers do.
 */
#include "tests/escape/escape.h"

ESCAPE(memory_becomes_exec)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return errno;
	*(volatile char *)p = (char)0xc3;
	return tried(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}
