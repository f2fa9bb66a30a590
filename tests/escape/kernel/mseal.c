/*
 * Seal memory against ever being unmapped, by a call newer than most lists.
 * What nobody lists must be what nobody has, whatever it may do.
 */
#include "tests/escape/escape.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

ESCAPE(mseal)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return tried(syscall(SYS_mseal, p, 4096, 0));
}
