/*
 * Ask where the robust list of a process of the host lies.
 * An address in its memory, for nothing: CVE-2012's many.
 */
#include "tests/escape/escape.h"

ESCAPE(robust_list)
{
	void *head;
	size_t n;

	return tried(syscall(SYS_get_robust_list, arg_number("victim"), &head, &n));
}
