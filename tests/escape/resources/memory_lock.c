/*
 * Lock a mebibyte into memory.
 * What is locked cannot be swapped out for others.
 */
#include "tests/escape/escape.h"

ESCAPE(memory_lock)
{
	void *p =
	    mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return tried(mlock(p, 1 << 20));
}
