/*
 * Become the one to whom orphans go.
 * Then they are nobody else's to count.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(subreaper)
{
	return tried(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
}
