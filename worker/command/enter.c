#include "worker/command/command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "worker/kernel.h"

#define PIPE_ROOM 4096 /* bytes that every new pipe holds */
#define SCRATCH	  "/tmp"

static const struct {
	int error;
	const char *code, *text;
	int status;
} reasons[] = {
	{ ENOENT, "not_found", "it, or the interpreter that it names, is not there", 127 },
	{ ENOTDIR, "not_found", "something on the way is not a directory", 127 },
	{ ELOOP, "not_found", "too many symbolic links stand on the way", 127 },
	{ ENAMETOOLONG, "invalid_argument", "its name is too long", 126 },
	{ EACCES, "permission_denied", "it may not be used so", 126 },
	{ EPERM, "permission_denied", "it may not be used so", 126 },
	{ EISDIR, "permission_denied", "it is a directory", 126 },
	{ ENOEXEC, "invalid_argument", "it is no program that this kernel can start", 126 },
	{ E2BIG, "invalid_argument", "arguments and environment are too long", 126 },
};

/* `what` failed, with `error`, for `name`, of which a reasonable length is told. */
static void
explain(struct command_fault *fault, const char *what, const char *name, int error)
{
	size_t i, last = sizeof(reasons) / sizeof(*reasons), n = strnlen(name, 256);
	const char *text = strerror(error), *code = "unavailable";

	fault->status = 126;
	for (i = 0; i < last; i++)
		if (reasons[i].error == error) {
			code = reasons[i].code;
			text = reasons[i].text;
			fault->status = reasons[i].status;
		}
	fault->code = code;
	/* Never in the middle of a character: the message is UTF-8. */
	while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
		n--;
	snprintf(fault->message, sizeof(fault->message), "%s%s%.*s: %s", what,
	    n > 0 ? " " : "", (int)n, name, text);
}

static int
write_all(int fd, const char *p, size_t n)
{
	ssize_t put;

	while (n > 0) {
		put = write(fd, p, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -ENOSPC;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

/* What fits into a pipe comes from one, as from a neighbour; nobody is left to feed it. */
static int
stdin_pipe(const struct command *c)
{
	int ends[2], e;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	e = write_all(ends[1], c->stdin_bytes, c->stdin_n);
	close(ends[1]);
	if (e < 0)
		close(ends[0]);
	return e < 0 ? e : ends[0];
}

/* The rest lies in a file that has no name. */
static int
stdin_file(const struct command *c)
{
	int fd = open(SCRATCH, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), e;

	if (fd < 0)
		return -errno;
	e = write_all(fd, c->stdin_bytes, c->stdin_n);
	if (e == 0 && lseek(fd, 0, SEEK_SET) < 0)
		e = -errno;
	if (e < 0)
		close(fd);
	return e < 0 ? e : fd;
}

static int
give_stdin(const struct command *c)
{
	int fd, e = 0;

	if (!c->has_stdin)
		return 0; /* nothing is there already: the chamber's own null device */
	fd = c->stdin_n <= PIPE_ROOM ? stdin_pipe(c) : stdin_file(c);
	if (fd < 0)
		return fd;
	if (fd == 0)
		return fcntl(fd, F_SETFD, 0) < 0 ? -errno : 0;
	if (dup2(fd, 0) < 0)
		e = -errno;
	close(fd);
	return e;
}

/* Who ignores a signal, or blocks it, hands that down: the command starts with none of ours. */
static int
reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < _NSIG; i++)
		if (kernel_signal_default(i) < 0 && errno != EINVAL) /* two have no other */
			return -errno;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

void
command_enter(const struct command *c, struct command_fault *fault)
{
	size_t i;
	int e;

	if (c->directory != NULL && chdir(c->directory) < 0) {
		explain(fault, "directory", c->directory, errno);
		return;
	}
	for (i = 0; c->env != NULL && c->env[i] != NULL; i += 2)
		if (setenv(c->env[i], c->env[i + 1], 1) < 0) {
			explain(fault, "env", "", errno);
			return;
		}
	e = give_stdin(c);
	if (e < 0) {
		explain(fault, "stdin", "", -e);
		return;
	}
	e = reset_signals();
	if (e < 0) {
		explain(fault, "signals", "", -e);
		return;
	}
	execvp(c->argv[0], c->argv);
	explain(fault, "cannot start", c->argv[0], errno);
}
