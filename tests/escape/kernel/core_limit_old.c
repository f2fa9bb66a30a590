/*
 * Lower the limit of core dumps by the older of the two calls.
 * libc uses one of them, and so lists forget the other.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(core_limit_old)
{
	struct rlimit none = { 0, 0 };

	return tried(syscall(SYS_setrlimit, RLIMIT_CORE, &none));
}
