#include "common/runtime_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *
runtime_socket_default(const char *namespace)
{
	const char *dir = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
	char *path;

	if (!dir || dir[0] != '/') {
		errno = ENOENT;
		return NULL;
	}
	return asprintf(&path, "%s/caisson/%s.sock", dir, namespace) < 0 ? NULL : path;
}
