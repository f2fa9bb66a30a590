/*
 * Make a mount writable by the newer call.
 * CVE-2021-41133: flatpak's list did not know the new calls of mount's family.
 */
#include "tests/escape/escape.h"

ESCAPE(mount_setattr)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} a = { .clear = 1 /* MOUNT_ATTR_RDONLY */ };

	return tried(syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, &a, sizeof(a)));
}
