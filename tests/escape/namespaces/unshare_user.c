/*
 * Make a user namespace, in which one is root.
 * The first step of most kernel exploits since 2013: it opens mount, netfilter and the like.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_user)
{
	return tried(unshare(CLONE_NEWUSER));
}
