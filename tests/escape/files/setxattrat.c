/*
 * Give a file an attribute by a call newer than most lists.
 * Linux 6.13.
 */
#include "tests/escape/escape.h"

ESCAPE(setxattrat)
{
	const char *path = path_in("rw", "setxattrat");
	struct {
		uint64_t value;
		uint32_t size, flags;
	} a = { (uint64_t)(uintptr_t) "y", 1, 0 };

	close(open(path, O_WRONLY | O_CREAT, 0600));
	return tried(syscall(463, AT_FDCWD, path, 0, "user.overlay.opaque", &a, sizeof(a)));
}
