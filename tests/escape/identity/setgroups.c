/*
 * Join or leave groups.
 * CVE-2018-7169: to leave one can be a gain.
 */
#include "tests/escape/escape.h"

ESCAPE(setgroups)
{
	return tried(syscall(SYS_setgroups, 1, (gid_t[]){ 0 }));
}
