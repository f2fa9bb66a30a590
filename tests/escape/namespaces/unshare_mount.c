/*
 * Make a mount namespace.
 * In it the root of a container mounts what it was not shown.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_mount)
{
	return tried(unshare(CLONE_NEWNS));
}
