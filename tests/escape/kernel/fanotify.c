/*
 * Watch the files of a mount with fanotify.
 * With its permission events a process decides what the host may open.
 */
#include "tests/escape/escape.h"

ESCAPE(fanotify)
{
	return tried(syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY));
}
