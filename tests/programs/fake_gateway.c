/*
 * fake_gateway: stands in for caisson-gateway, and does what whoever connects asks for.
 *
 * One connection at a time, on any of its sockets; one line each:
 *   say TEXT      "TEXT PID UID SOCKETS ARGUMENT DESCRIPTORS CONFIG-BYTES"
 *   dial          the rest of the connection is the link to the broker; or "error ERRNO"
 *   dials N       asks for N, reads the answers only then: "LINKS OTHERS"
 *   order VERB    says that to the supervisor
 *   refuse        takes no configuration from now on
 *   mute          answers no heartbeat
 *   exit STATUS   ends
 * A configuration that holds the word "unwanted" is refused at the start.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/child.h"
#include "common/control.h"

static int sockets, mute, refuses;
static size_t config_bytes;

static void
tell(const struct control *c)
{
	while (control_send(GATEWAY_FD_CONTROL, c, NULL, 0) == -EAGAIN) {
		struct pollfd p = { GATEWAY_FD_CONTROL, POLLOUT, 0 };

		poll(&p, 1, -1);
	}
}

/* 0, or EINVAL. */
static int
read_config(int fd)
{
	static char bytes[1 << 20];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	close(fd);
	if (n <= 0)
		_exit(3);
	config_bytes = (size_t)n;
	return memmem(bytes, (size_t)n, "unwanted", 8) ? EINVAL : 0;
}

/* Reads one, and answers it if any moment is right for that.  True: it is the caller's, with its
 * descriptor or -1. */
static bool
hear_one(struct control *c, int *ret_fd)
{
	struct control answer = { .verb = CONTROL_PONG };
	int fds[CONTROL_FDS_MAX], r;
	unsigned nfds;

	r = control_recv(GATEWAY_FD_CONTROL, c, fds, &nfds);
	if (r == -EAGAIN)
		return false;
	if (r <= 0)
		_exit(0);
	*ret_fd = nfds > 0 ? fds[0] : -1;
	switch (c->verb) {
	case CONTROL_PING:
		if (!mute)
			tell(&answer);
		return false;
	case CONTROL_CONFIG:
		answer.verb = CONTROL_CONFIG_TAKEN;
		answer.generation = c->generation;
		answer.error = refuses ? EINVAL : read_config(fds[0]);
		tell(&answer);
		return false;
	case CONTROL_SHUTDOWN:
		fprintf(stderr, "shutdown within %llu ms\n", (unsigned long long)c->count);
		answer.verb = CONTROL_SETTLED;
		tell(&answer);
		return false;
	default: return true;
	}
}

/* The next of those. */
static int
hear(struct control *c)
{
	struct pollfd p = { GATEWAY_FD_CONTROL, POLLIN, 0 };
	int fd;

	do
		poll(&p, 1, -1);
	while (!hear_one(c, &fd));
	return fd;
}

static void
relay(int a, int b)
{
	char bytes[65536];

	for (;;) {
		struct pollfd p[] = { { a, POLLIN, 0 }, { b, POLLIN, 0 } };
		int i;

		poll(p, 2, -1);
		for (i = 0; i < 2; i++) {
			ssize_t n = p[i].revents ? read(p[i].fd, bytes, sizeof(bytes)) : -2, done = 0, w;

			if (n == 0 || (n == -1 && errno != EAGAIN))
				return;
			while (done < n) {
				w = write(p[!i].fd, bytes + done, (size_t)(n - done));
				if (w < 0)
					return;
				done += w;
			}
		}
	}
}

static void
dial(int client)
{
	struct control c = { .verb = CONTROL_DIAL, .index = 7 };
	int link;

	tell(&c);
	link = hear(&c);
	if (c.verb != CONTROL_DIALED || c.index != 7 || (link < 0) != (c.error != 0))
		_exit(4);
	if (link < 0)
		dprintf(client, "error %d\n", c.error);
	else
		relay(client, link);
	if (link >= 0)
		close(link);
}

static void
dial_many(int client, unsigned n)
{
	struct control c = { .verb = CONTROL_DIAL };
	unsigned links = 0, others = 0, i;
	int fd;

	for (i = 0; i < n; i++) {
		c.index = i;
		tell(&c);
	}
	for (i = 0; i < n; i++) {
		fd = hear(&c);
		links += fd >= 0;
		others += fd < 0 && c.error == EAGAIN;
		if (fd >= 0)
			close(fd);
	}
	dprintf(client, "%u %u\n", links, others);
}

static unsigned
count_descriptors(void)
{
	unsigned n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
obey(int client, char *line, const char *argument)
{
	char *word = strchr(line, ' ');
	struct control c = { 0 };

	if (word)
		*word++ = '\0';
	if (!strcmp(line, "say"))
		dprintf(client, "%s %d %u %d %s %u %zu\n", word, (int)getpid(), (unsigned)getuid(),
		    sockets, argument, count_descriptors(), config_bytes);
	else if (!strcmp(line, "dial"))
		dial(client);
	else if (!strcmp(line, "dials"))
		dial_many(client, (unsigned)strtoul(word, NULL, 10));
	else if (!strcmp(line, "refuse"))
		refuses = 1;
	else if (!strcmp(line, "mute"))
		mute = 1;
	else if (!strcmp(line, "exit"))
		_exit((int)strtol(word, NULL, 10));
	c.verb = (uint32_t)strtoul(word ? word : "0", NULL, 10);
	if (!strcmp(line, "order"))
		tell(&c);
	if (!strcmp(line, "refuse") || !strcmp(line, "mute"))
		dprintf(client, "done\n");
}

static void
serve(int listener, const char *argument)
{
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	char line[256] = "", byte;
	size_t n = 0;

	if (client < 0)
		return;
	while (n < sizeof(line) - 1 && read(client, &byte, 1) == 1 && byte != '\n')
		line[n++] = byte;
	obey(client, line, argument);
	close(client);
}

int
main(int argc, char **argv)
{
	struct control first = { .verb = CONTROL_READY };
	struct pollfd p[64];
	struct control c;
	int config = argc == 2 ? (int)strtol(argv[1], NULL, 10) : -1, i;

	signal(SIGPIPE, SIG_IGN);
	sockets = config - GATEWAY_FD_LISTEN;
	if (sockets < 1 || sockets > 60)
		return 3;
	first.error = read_config(config);
	if (first.error)
		first.verb = CONTROL_CONFIG_TAKEN;
	tell(&first);
	if (first.error)
		return 125;
	for (;;) {
		for (i = 0; i <= sockets; i++)
			p[i] = (struct pollfd){ GATEWAY_FD_CONTROL + i, POLLIN, 0 };
		poll(p, (nfds_t)sockets + 1, -1);
		for (i = 1; i <= sockets; i++)
			if (p[i].revents)
				serve(GATEWAY_FD_CONTROL + i, argv[1]);
		if (p[0].revents)
			hear_one(&c, &i);
	}
}
