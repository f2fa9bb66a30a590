/*
 * loop_driver: a driver that does what the message of its turn says, on the loop in C;
 * tests/sdk/loop_driver.py says how.
 */
#include "worker/sdk/caisson.h"
#include "worker/sdk/caisson_loop.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static int link_fd;
static struct caisson_value closing; /* what to do when it closes */
static struct caisson_cursor parts;  /* what to do, decision by decision */

/* Messages are kept to the end: a close that was left behind still has one. */
static struct kept {
	struct kept *next;
	struct caisson_writer message;
} *all_kept;

static void
say(const char *word, const uint8_t *p, size_t n)
{
	(void)printf("%s ", word);
	while (n-- > 0)
		(void)printf("%02x", *p++);
	(void)printf("\n");
	(void)fflush(stdout);
}

static void
await(struct caisson *c, struct caisson_value what)
{
	unsigned state = caisson_is(what, "draining") ? CAISSON_DRAINING : CAISSON_CANCELLED;
	struct pollfd p = { link_fd, POLLIN, 0 };

	while (!(caisson_state(c) & state))
		(void)poll(&p, 1, -1);
}

/* Does all that comes before a decision; negative if that is to fail. */
static int
act(struct caisson *c, struct caisson_value part)
{
	struct caisson_value emit = caisson_get(part, "emit");
	struct caisson_value text = caisson_get(part, "raise");
	struct caisson_writer nil = { NULL, 0, 0, 0 };
	size_t n;
	const char *p = caisson_bytes(emit, &n);
	char type[128] = "";

	if (p != NULL && n < sizeof type) {
		memcpy(type, p, n);
		caisson_put_nil(&nil);
		if (caisson_emit(c, type, &nil) < 0)
			abort();
		caisson_writer_finish(&nil);
	}
	if (caisson_get(part, "await").n > 0)
		await(c, caisson_get(part, "await"));
	p = caisson_bytes(text, &n);
	if (p != NULL)
		(void)fprintf(stderr, "%.*s\n", (int)n, p);
	while (caisson_get(part, "hang").n > 0)
		(void)pause();
	return p != NULL ? -EIO : 0;
}

static int
on_open(void *data, struct caisson *c, const struct caisson_turn *turn)
{
	struct kept *k = calloc(1, sizeof *k);
	struct caisson_value message;

	(void)data;
	if (k == NULL)
		return -ENOMEM;
	k->next = all_kept;
	all_kept = k;
	caisson_put_value(&k->message, turn->message);
	message = (struct caisson_value){ k->message.p, k->message.n };
	parts = caisson_iterate(caisson_get(message, "decide"));
	closing = caisson_get(message, "close");
	return act(c, caisson_get(message, "open"));
}

static int
on_decide(void *data, struct caisson *c, struct caisson_value given,
    struct caisson_writer *ret_decision)
{
	struct caisson_value part;
	int error;

	(void)data;
	say("ask", given.p, given.n);
	if (!caisson_next(&parts, &part))
		abort();
	error = act(c, part);
	caisson_put_value(ret_decision, caisson_get(part, "decide"));
	return error;
}

static void
on_close(void *data, const char *status)
{
	(void)data;
	(void)printf("close %s\n", status);
	(void)fflush(stdout);
	(void)act(NULL, closing);
}

int
main(void)
{
	struct caisson_driver driver = { on_open, on_decide, on_close, NULL, 0 };
	struct caisson_turn turn;
	struct caisson *c;
	int error = signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -errno : 0;
	const char *fd = getenv("CAISSON_LINK_FD");

	link_fd = fd != NULL ? (int)strtol(fd, NULL, 10) : -1;
	if (error == 0)
		error = caisson_open(&c);
	if (error < 0)
		return 1;
	while ((error = caisson_next_turn(c, &turn)) == 0) {
		driver.close_ms = (unsigned)caisson_uint(caisson_get(turn.message, "close_ms"));
		error = caisson_loop_turn(c, &turn, &driver);
		if (error < 0)
			break;
	}
	caisson_close(c);
	return error == -EPIPE ? 0 : 1;
}
