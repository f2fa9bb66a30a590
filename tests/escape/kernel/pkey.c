/*
 * Allocate a protection key.
 * Keys change what memory is writable without a call that could be judged.
 */
#include "tests/escape/escape.h"

ESCAPE(pkey)
{
	return tried(syscall(SYS_pkey_alloc, 0, 0));
}
