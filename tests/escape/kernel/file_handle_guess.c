/*
 * Open the root of a file system by a made-up handle.
 * The same, where name_to_handle_at is forbidden; the handle need not be right to tell.
 */
#include "tests/escape/escape.h"

ESCAPE(file_handle_guess)
{
	struct {
		struct file_handle h;
		uint32_t inode, generation;
	} f = { .h = { .handle_bytes = 8, .handle_type = 1 }, .inode = 2 };
	int dir = open(arg("ro"), O_RDONLY | O_DIRECTORY);

	if (syscall(SYS_open_by_handle_at, dir, &f, O_RDONLY | O_DIRECTORY) >= 0)
		return 0;
	return errno == ESTALE ? 0 : errno;
}
