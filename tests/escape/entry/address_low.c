/*
 * Lower the limit of core dumps from an address that no program has its variables at.
 * Who tells a question from a change by the address must not do so by the usual ones only.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(address_low)
{
	struct rlimit *none = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (none == MAP_FAILED)
		return BROKEN;
	return tried(syscall(SYS_prlimit64, 0, RLIMIT_CORE, none, NULL));
}
