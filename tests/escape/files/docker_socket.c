/*
 * Connect to a socket of the host that stands in a read-only mount.
 * greywall#55, landrun#43: docker.sock; read-only does not matter, Landlock before 9 neither.
 */
#include "tests/escape/escape.h"

ESCAPE(docker_socket)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path_in("ro", "stream"));
	return fd < 0 ? errno : tried(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}
