/*
 * Write an entry of the local descriptor table.
 * CVE-2015-5157, CVE-2015-8660's company: segments confuse the kernel's entry code.
 */
#include "tests/escape/escape.h"

ESCAPE(modify_ldt)
{
	char table[64];

	return tried(syscall(SYS_modify_ldt, 0, table, sizeof(table)));
}
