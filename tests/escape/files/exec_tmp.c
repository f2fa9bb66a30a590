/*
 * Start a program that was dropped in /tmp.
 * The second stage of nearly everything.
 */
#include "tests/escape/escape.h"

ESCAPE(exec_tmp)
{
	const char *name = own_path("/tmp");
	int ret;

	copy_file(arg("self"), name, 0755);
	ret =
	    tried_exec(name, (char *[]){ (char *)(uintptr_t)name, (char[]){ "--list" }, NULL });
	unlink(name);
	return ret;
}
