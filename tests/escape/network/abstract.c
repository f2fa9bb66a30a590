/*
 * Connect to an abstract socket of the host.
 * CVE-2020-15257: containerd's own, from any container of the host's network.
 */
#include "tests/escape/escape.h"

#include <stddef.h>

ESCAPE(abstract)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	int n = snprintf(to.sun_path + 1, 100, "%s", arg("abstract"));

	return fd < 0
		   ? errno
		   : tried(connect(fd, (struct sockaddr *)&to,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)));
}
