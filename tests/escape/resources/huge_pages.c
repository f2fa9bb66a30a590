/*
 * Map of the huge pages that the machine has set aside.
 * They are one store for everybody, which a database has been promised, and no limit of memory
 * counts them.
 */
#include "tests/escape/escape.h"

ESCAPE(huge_pages)
{
	return mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1,
		   0) == MAP_FAILED ? errno : 0;
}
