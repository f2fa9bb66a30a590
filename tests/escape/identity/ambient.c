/*
 * Keep a capability over an exec.
 * CVE-2018-18955 gave too many; ambient ones last.
 */
#include "tests/escape/escape.h"

#include <linux/capability.h>
#include <sys/prctl.h>

ESCAPE(ambient)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return errno;
	d[0].inheritable |= 1u << 21;
	if (syscall(SYS_capset, &h, d) < 0)
		return errno;
	return tried(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
}
