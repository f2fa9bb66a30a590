/*
 * Start a dropped program by giving it to the loader.
 * The loader is a program that may be executed; what it maps is the question.
 */
#include "tests/escape/escape.h"

ESCAPE(ld_so_tmp)
{
	const char *name = own_path("/tmp");
	char loader[] = "/lib64/ld-linux-x86-64.so.2";
	int ret;

	copy_file("/usr/bin/true", name, 0755);
	ret = tried_exec(loader, (char *[]){ loader, (char *)(uintptr_t)name, NULL });
	unlink(name);
	return ret;
}
