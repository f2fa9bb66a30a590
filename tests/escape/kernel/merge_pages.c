/*
 * Offer memory to be merged with the same pages of others.
 * A write to a page that was merged is slow: so one learns what others have in memory, of
 * another virtual machine even.
 */
#include "tests/escape/escape.h"

ESCAPE(merge_pages)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return BROKEN;
	return tried(madvise(p, 4096, MADV_MERGEABLE));
}
