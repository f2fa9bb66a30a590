/*
 * Unlock what uid 0 means.
 * SECBIT_NOROOT, taken back.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(securebits)
{
	return tried(prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
}
