/*
 * Open a file of the host by its handle, around every mount.
 * "Shocker" read the host's /etc/shadow out of Docker so in 2014.
 */
#include "tests/escape/escape.h"

ESCAPE(file_handle)
{
	struct {
		struct file_handle h;
		unsigned char bytes[128];
	} f = { .h.handle_bytes = 128 };
	int mount, dir = open(arg("ro"), O_RDONLY | O_DIRECTORY);

	if (syscall(SYS_name_to_handle_at, AT_FDCWD, arg("ro"), &f, &mount, 0) < 0)
		return errno;
	return tried(syscall(SYS_open_by_handle_at, dir, &f, O_RDONLY));
}
