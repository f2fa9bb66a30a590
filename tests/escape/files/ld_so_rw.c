/*
 * Start a program that was dropped in a writable mount by giving it to the loader.
 * The mount has programs of the host's on it, too; its flags decide.
 */
#include "tests/escape/escape.h"

ESCAPE(ld_so_rw)
{
	char *name = (char *)(uintptr_t)path_in("rw", "ld_so"),
	     loader[] = "/lib64/ld-linux-x86-64.so.2";

	copy_file("/usr/bin/true", name, 0755);
	return tried_exec(loader, (char *[]){ loader, name, NULL });
}
