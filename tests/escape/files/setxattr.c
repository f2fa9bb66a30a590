/*
 * Give a file capabilities.
 * CVE-2021-4034's cousins: security.capability is a set-uid bit by another name.
 */
#include "tests/escape/escape.h"

#include <sys/xattr.h>

ESCAPE(setxattr)
{
	/* version 2, CAP_SYS_ADMIN permitted and effective */
	static const uint32_t caps[5] = { 0x02000001, 1u << 21 };
	const char *path = path_in("rw", "setxattr");

	close(open(path, O_WRONLY | O_CREAT, 0700));
	return tried(setxattr(path, "security.capability", caps, sizeof(caps), 0));
}
