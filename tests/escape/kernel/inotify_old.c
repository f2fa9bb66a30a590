/*
 * Watch a directory of the host by the call before inotify_init1.
 * Lists name the newer number and forget the older.
 */
#include "tests/escape/escape.h"

ESCAPE(inotify_old)
{
	return tried(syscall(SYS_inotify_init));
}
