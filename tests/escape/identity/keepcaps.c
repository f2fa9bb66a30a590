/*
 * Ask to keep capabilities over a change of uid.
 * The flag of daemons that drop the one and not the other.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(keepcaps)
{
	return tried(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
}
