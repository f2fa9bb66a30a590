/*
 * Start a program that was dropped in a writable mount.
 * Which is not noexec.
 */
#include "tests/escape/escape.h"

ESCAPE(exec_rw)
{
	const char *path = path_in("rw", "exec");

	copy_file(arg("self"), path, 0755);
	return tried_exec(
	    path, (char *[]){ (char *)(uintptr_t)path, (char[]){ "--list" }, NULL });
}
