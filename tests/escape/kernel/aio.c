/*
 * Make an asynchronous i/o context of the old kind.
 * A second way to read and write that filters tend to forget; CVE-2014-0206.
 */
#include "tests/escape/escape.h"

ESCAPE(aio)
{
	unsigned long context = 0;

	return tried(syscall(SYS_io_setup, 1, &context));
}
