/*
 * Map a file of a writable mount executable.
 * A plugin that one wrote oneself.
 */
#include "tests/escape/escape.h"

ESCAPE(map_exec_rw)
{
	const char *name = path_in("rw", "map_exec");
	void *p;
	int fd;

	copy_file("/usr/bin/true", name, 0755);
	fd = open(name, O_RDONLY);
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	return p == MAP_FAILED ? errno : 0;
}
