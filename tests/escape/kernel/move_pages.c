/*
 * Ask where the pages of a process lie.
 * CVE-2017-14140: move_pages undid the randomisation of other processes' addresses.
 */
#include "tests/escape/escape.h"

ESCAPE(move_pages)
{
	void *page = (void *)((uintptr_t)&errno & ~4095ul);
	int status;

	return tried(syscall(SYS_move_pages, 0, 1, &page, NULL, &status, 0));
}
