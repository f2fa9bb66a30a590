/*
 * Map memory that is writable and executable.
 * Where shell code goes; the first half of every exploit of a parser.
 */
#include "tests/escape/escape.h"

ESCAPE(memory_wx)
{
	void *p = mmap(
	    NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? errno : 0;
}
