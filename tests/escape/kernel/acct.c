/*
 * Turn process accounting off; or on, into any file.
 * Root of a container stopped the host's records.
 */
#include "tests/escape/escape.h"

ESCAPE(acct)
{
	return tried(syscall(SYS_acct, NULL));
}
