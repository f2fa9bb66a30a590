/*
 * Make a uts namespace.
 * Harmless alone; whoever may make one may make the others.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_uts)
{
	return tried(unshare(CLONE_NEWUTS));
}
