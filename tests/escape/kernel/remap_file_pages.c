/*
 * Shuffle the pages of a mapping by a call that nobody uses any more.
 * Emulated since 2015, by code of its own.
 */
#include "tests/escape/escape.h"

ESCAPE(remap_file_pages)
{
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return tried(syscall(SYS_remap_file_pages, p, 4096, 0, 1, 0));
}
