/*
 * Set what governs writable and executable memory.
 * PR_SET_MDWE, to have it inherited otherwise.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(mdwe_change)
{
	/* PR_SET_MDWE, refuse gain; a second time it must be as it is */
	return tried(prctl(65, 1, 0, 0, 0));
}
