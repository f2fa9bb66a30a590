/*
 * Learn which frames of the machine's memory hold one's pages.
 * Attacks on neighbouring rows of memory chips, and on the kernel's own mapping of it, begin so.
 */
#include "tests/escape/escape.h"

ESCAPE(page_frames)
{
	static volatile char page = 1;
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	if (pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)&page / 4096 * 8)) < 0)
		return errno;
	return page && (entry & ((1ULL << 55) - 1)) != 0 ? 0 : CONTAINED;
}
