/*
 * Take swap away, or add some.
 * A swap file that others can read holds everybody's memory.
 */
#include "tests/escape/escape.h"

ESCAPE(swapoff)
{
	return tried(syscall(SYS_swapoff, "/no/such/swap"));
}
