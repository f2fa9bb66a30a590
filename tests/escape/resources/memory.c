/*
 * Use four times the memory that it was given.
 * The host's other programs are what the kernel then kills.
 */
#include "tests/escape/escape.h"

ESCAPE(memory)
{
	size_t n = 256u << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return errno;
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	return 0;
}
