/*
 * Make a time namespace.
 * Expired grants look young in it.
 */
#include "tests/escape/escape.h"

ESCAPE(unshare_time)
{
	return tried(unshare(0x80 /* CLONE_NEWTIME */));
}
