/*
 * caisson-command: the built-in runtime for commands.  Descriptor 3 is its link to the broker:
 * it says hello, waits, however long, for one command.run, and becomes that command.  The link
 * is closed by that, which is the answer "it runs"; an error answers that it cannot.
 *
 * Static, and small while it waits: it is what a pool keeps warm.  Nothing but a command.run
 * makes it do anything, and the broker's end makes it end.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/child.h"
#include "common/sanitizer.h"
#include "worker/command/command.h"

SANITIZER_DEFAULTS

#define NAME	   "caisson-command"
#define CANNOT_RUN 125

static int
complain(const char *what)
{
	dprintf(STDERR_FILENO, NAME ": %s\n", what);
	return CANNOT_RUN;
}

/* Exactly `n` bytes: 1; 0 at the end of the link, if nothing has come; negative errno. */
static int
read_all(int fd, uint8_t *p, size_t n)
{
	size_t got = 0;
	ssize_t r;

	while (got < n) {
		r = read(fd, p + got, n - got);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return got == 0 ? 0 : -EPROTO;
		got += (size_t)r;
	}
	return 1;
}

/* The next message, whole and well-formed; its bytes stay for as long as the process.  1, 0 at
 * the end of the link, or negative errno. */
static int
receive(int fd, struct caisson_value *ret)
{
	uint8_t head[4];
	struct caisson_value rest, message;
	uint8_t *bytes;
	size_t n;
	int r = read_all(fd, head, sizeof(head));

	if (r <= 0)
		return r;
	n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	if (n == 0 || n > CAISSON_FRAME_MAX)
		return -EPROTO;
	bytes = malloc(n);
	if (bytes == NULL)
		return -ENOMEM;
	r = read_all(fd, bytes, n);
	rest = (struct caisson_value){ bytes, n };
	if (r == 0 || (r > 0 && (!caisson_take(&rest, &message) || rest.n > 0 ||
			  caisson_type(message) != CAISSON_ARRAY)))
		return -EPROTO;
	*ret = message;
	return r;
}

/* Sends what `w` holds behind room for a length. */
static int
send_frame(int fd, struct caisson_writer *w)
{
	size_t at, n = w->n - 4;
	ssize_t put;

	if (w->error < 0)
		return w->error;
	for (at = 0; at < 4; at++)
		w->p[at] = (uint8_t)(n >> 8 * (3 - at));
	for (at = 0; at < w->n; at += (size_t)put) {
		put = write(fd, w->p + at, w->n - at);
		if (put < 0 && errno == EINTR)
			put = 0;
		if (put < 0)
			return -errno;
	}
	caisson_writer_finish(w);
	return 0;
}

static int
hello(int fd)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_value message, kind, msgid, error, result;
	struct caisson_cursor it;
	int r;

	caisson_put_raw(&w, "\0\0\0", 4);
	caisson_put_array(&w, 4);
	caisson_put_uint(&w, 0);
	caisson_put_uint(&w, 1);
	caisson_put_str(&w, "hello");
	caisson_put_array(&w, 1);
	caisson_put_map(&w, 2);
	caisson_put_str(&w, "protocol");
	caisson_put_uint(&w, CAISSON_PROTOCOL);
	caisson_put_str(&w, "name");
	caisson_put_str(&w, NAME);
	r = send_frame(fd, &w);
	if (r == 0)
		r = receive(fd, &message);
	if (r <= 0)
		return r;
	it = caisson_iterate(message);
	if (it.left != 4 || !caisson_next(&it, &kind) || caisson_uint(kind) != 1 ||
	    !caisson_next(&it, &msgid) || caisson_uint(msgid) != 1 ||
	    !caisson_next(&it, &error) || caisson_type(error) != CAISSON_NIL ||
	    !caisson_next(&it, &result) ||
	    caisson_uint(caisson_get(result, "protocol")) != CAISSON_PROTOCOL)
		return -EPROTO;
	return 1;
}

/* What is asked: 1, and the parameters and number of the request. */
static int
next_request(int fd, uint64_t *ret_msgid, struct caisson_value *ret_params)
{
	struct caisson_value message, kind, msgid, method, params;
	struct caisson_cursor it;
	int r = receive(fd, &message);

	if (r <= 0)
		return r;
	it = caisson_iterate(message);
	if (it.left != 4 || !caisson_next(&it, &kind) || caisson_type(kind) != CAISSON_UINT ||
	    caisson_uint(kind) != 0 || !caisson_next(&it, &msgid) ||
	    caisson_type(msgid) != CAISSON_UINT || !caisson_next(&it, &method) ||
	    !caisson_is(method, "command.run") || !caisson_next(&it, &params))
		return -EPROTO;
	it = caisson_iterate(params);
	if (caisson_type(params) != CAISSON_ARRAY || it.left != 1 ||
	    !caisson_next(&it, ret_params))
		return -EPROTO;
	*ret_msgid = caisson_uint(msgid);
	return 1;
}

static void
answer(int fd, uint64_t msgid, const struct command_fault *fault)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };

	caisson_put_raw(&w, "\0\0\0", 4);
	caisson_put_array(&w, 4);
	caisson_put_uint(&w, 1);
	caisson_put_uint(&w, msgid);
	caisson_put_map(&w, 2);
	caisson_put_str(&w, "code");
	caisson_put_str(&w, fault->code);
	caisson_put_str(&w, "message");
	caisson_put_str(&w, fault->message);
	caisson_put_nil(&w);
	(void)send_frame(fd, &w); /* who does not read it sees how we end */
}

int
main(void)
{
	struct caisson_value params;
	struct command_fault fault;
	struct command command;
	uint64_t msgid;
	int r;

	/* The command has no business on the link. */
	if (fcntl(RUNTIME_FD_LINK, F_SETFD, FD_CLOEXEC) < 0)
		return complain("descriptor 3 is no link: a broker starts this");
	unsetenv(RUNTIME_ENV_LINK);
	r = hello(RUNTIME_FD_LINK);
	if (r > 0)
		r = next_request(RUNTIME_FD_LINK, &msgid, &params);
	if (r == 0)
		return 0;
	if (r < 0)
		return complain(r == -EPROTO ? "the broker broke the protocol" : strerror(-r));
	if (command_read(params, &command, &fault) == 0)
		command_enter(&command, &fault);
	answer(RUNTIME_FD_LINK, msgid, &fault);
	return fault.status;
}
