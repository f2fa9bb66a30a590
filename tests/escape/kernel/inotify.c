/*
 * Watch what the host does in a directory that is mounted read-only.
 * Names and times of files are a side channel into the host.
 */
#include "tests/escape/escape.h"

#include <sys/inotify.h>

ESCAPE(inotify)
{
	int fd = inotify_init1(IN_CLOEXEC);

	return tried(fd < 0 ? -1 : inotify_add_watch(fd, arg("ro"), IN_ALL_EVENTS));
}
