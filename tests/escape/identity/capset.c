/*
 * Raise a capability that a namespace gave.
 * Permitted is enough: effective follows.
 */
#include "tests/escape/escape.h"

#include <linux/capability.h>

ESCAPE(capset)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return errno;
	d[0].effective |= 1u << 21;
	d[0].permitted |= 1u << 21;
	return tried(syscall(SYS_capset, &h, d));
}
