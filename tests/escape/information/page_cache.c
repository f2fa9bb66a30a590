/*
 * Ask whether a page of a file that all share has been read lately.
 * Which pages of a library the others ran tells what they did: keys were typed, a browser opened.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(page_cache)
{
	char byte;
	struct iovec one = { &byte, 1 };
	int fd = open(path_in("ro", "file"), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return BROKEN;
	return tried(preadv2(fd, &one, 1, 0, RWF_NOWAIT));
}
