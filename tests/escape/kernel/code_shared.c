/*
 * Write code through one mapping of shared memory and run it through another.
 * MDWE asks each mapping what it was, and neither of the two was ever both.
 */
#include "tests/escape/escape.h"

ESCAPE(code_shared)
{
	static const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 }; /* return 42 */
	void *run = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *change;

	if (run == MAP_FAILED)
		return errno;
	change = mremap(run, 0, 4096, MREMAP_MAYMOVE);
	if (change == MAP_FAILED || mprotect(change, 4096, PROT_READ | PROT_WRITE) < 0)
		return errno;
	memcpy(change, code, sizeof(code));
	return ((int (*)(void))run)() == 42 ? 0 : BROKEN;
}
