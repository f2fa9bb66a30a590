/*
 * Switch protections against speculation off.
 * PR_SET_SPECULATION_CTRL, where the kernel lets a process choose.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(speculation)
{
	long now = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, 0, 0, 0);

	return tried(now);
}
