/*
 * Write over its own code through /proc/self/mem, around what its pages allow.
 * deno#720; no rule about writable and executable memory holds there.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_self_mem)
{
	static const char text[16] = "read-only";
	int fd = open("/proc/self/mem", O_RDWR);

	return fd < 0 ? errno : tried(pwrite(fd, "written", 7, (off_t)(uintptr_t)text));
}
