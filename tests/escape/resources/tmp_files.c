/*
 * Make 17000 files in /tmp.
 * Empty ones cost no byte that a limit in bytes would count.
 */
#include "tests/escape/escape.h"

ESCAPE(tmp_files)
{
	int ret = 0, n = 0;
	const char *dir = own_path("/tmp");
	char path[300];

	mkdir(dir, 0700);
	for (; n < 17000 && ret == 0; n++) {
		snprintf(path, sizeof(path), "%s/%d", dir, n);
		ret = tried(mknod(path, S_IFIFO | 0600, 0));
	}
	while (n-- > 0) {
		snprintf(path, sizeof(path), "%s/%d", dir, n);
		unlink(path);
	}
	rmdir(dir);
	return ret;
}
