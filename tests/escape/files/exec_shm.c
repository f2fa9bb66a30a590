/*
 * Start a program that was dropped in /dev/shm.
 * The other place that is writable everywhere.
 */
#include "tests/escape/escape.h"

ESCAPE(exec_shm)
{
	const char *name = own_path("/dev/shm");
	int ret;

	copy_file(arg("self"), name, 0755);
	ret =
	    tried_exec(name, (char *[]){ (char *)(uintptr_t)name, (char[]){ "--list" }, NULL });
	unlink(name);
	return ret;
}
