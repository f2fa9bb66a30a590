/*
 * Make a file set-uid by a mode with a bit above the 16 that count.
 * The same mistake in a mode.
 */
#include "tests/escape/escape.h"

ESCAPE(mode_high)
{
	const char *path = path_in("rw", "mode_high");

	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	if (syscall(SYS_chmod, path, 0x100000000UL | 0x10000 | 04755) < 0)
		return errno;
	return is_set_id(path, CONTAINED);
}
