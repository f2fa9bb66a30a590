/*
 * Make a cgroup namespace.
 * CVE-2022-0492 mounted a hierarchy from within one.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_cgroup)
{
	return tried(unshare(CLONE_NEWCGROUP));
}
