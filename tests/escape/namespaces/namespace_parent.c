/*
 * Ask a namespace for the one that owns it.
 * NS_GET_USERNS and NS_GET_PARENT climb, from descriptor to descriptor.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

ESCAPE(namespace_parent)
{
	int fd = open("/proc/self/ns/uts", O_RDONLY);

	return fd < 0 ? errno : tried(ioctl(fd, 0xb701 /* NS_GET_USERNS */));
}
