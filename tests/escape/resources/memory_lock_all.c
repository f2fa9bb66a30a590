/*
 * Lock all that there is and will be.
 * The same by mlockall.
 */
#include "tests/escape/escape.h"

ESCAPE(memory_lock_all)
{
	return tried(mlockall(MCL_CURRENT | MCL_ONFAULT));
}
