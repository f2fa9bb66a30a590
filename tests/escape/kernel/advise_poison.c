/*
 * Tell the kernel that a page of memory is broken.
 * It takes the frame out of use, from the whole machine.
 */
#include "tests/escape/escape.h"

ESCAPE(advise_poison)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return BROKEN;
	/* Of a length that is wrong: root gets as far as being told that. */
	return madvise(p, (size_t)-1, MADV_HWPOISON) < 0 && errno == EINVAL ? 0 : errno;
}
