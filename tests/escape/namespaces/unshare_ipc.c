/*
 * Make an ipc namespace.
 * CVE-2015-7613 lay in what it opens.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_ipc)
{
	return tried(unshare(CLONE_NEWIPC));
}
