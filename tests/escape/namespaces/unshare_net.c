/*
 * Make a network namespace.
 * CVE-2022-0185 and the netfilter bugs needed one to be root in.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_net)
{
	return tried(unshare(CLONE_NEWNET));
}
