/*
 * Map a dropped file executable.
 * What the loader does, and what a plugin is.
 */
#include "tests/escape/escape.h"

ESCAPE(map_exec_tmp)
{
	const char *name = own_path("/tmp");
	int fd, error;
	void *p;

	copy_file("/usr/bin/true", name, 0755);
	fd = open(name, O_RDONLY);
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	error = errno;
	unlink(name);
	return p == MAP_FAILED ? error : 0;
}
