#include "supervisor/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/options.h"
#include "common/util.h"

#define WATCHDOG_US_MAX (UINT64_C(86400) * 1000000)

int
notify_send(const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	cleanup_fd int fd = -1;
	socklen_t size;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return 0;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strlcpy(address.sun_path, path, sizeof(address.sun_path));
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@') /* an abstract name ends with its last byte */
		address.sun_path[0] = '\0';
	else
		size++;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL,
			  (struct sockaddr *)&address, size) < 0)
		return -errno;
	return 1;
}

uint64_t
notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, whose;

	if (!usec || options_parse_number(usec, WATCHDOG_US_MAX, &us) < 0)
		return 0;
	if (pid &&
	    (options_parse_number(pid, INT32_MAX, &whose) < 0 || whose != (uint64_t)getpid()))
		return 0;
	return us / 2000;
}

/* The parent's whole rest: its status says what the child's start came to. */
static _Noreturn void
wait_for_child(pid_t pid, int fd)
{
	int status;
	char byte;
	ssize_t n;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(125);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 125);
}

int
notify_daemonize(void)
{
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid > 0) {
		close(pair[1]);
		wait_for_child(pid, pair[0]);
	}
	close(pair[0]);
	if (pid < 0 || setsid() < 0) {
		int r = -errno;

		close(pair[1]);
		return r;
	}
	return pair[1];
}

void
notify_ready(int fd)
{
	ssize_t n;

	if (fd < 0)
		return;
	n = write(fd, "\n", 1);
	(void)n;
	close(fd);
}
