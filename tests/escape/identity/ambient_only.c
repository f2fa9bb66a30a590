/*
 * Raise an ambient capability, if one was left inheritable.
 * The same without capset.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(ambient_only)
{
	return tried(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
}
