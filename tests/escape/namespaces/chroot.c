/*
 * Leave a chroot by entering another with a directory kept open.
 * The oldest escape there is.
 */
#include "tests/escape/escape.h"

ESCAPE(chroot)
{
	return tried(chroot("/tmp"));
}
