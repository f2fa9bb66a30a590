/*
 * inquiry: a command that asks a broker a few things, prints the answers, and ends.
 *
 * Owns the loop, the link, the time that an answer may take, and, where no daemon is named, the
 * caissond that it starts for itself.  Why there is no answer it says itself, in one line.
 */
#ifndef CLIENT_INQUIRY_H
#define CLIENT_INQUIRY_H

#include <stdbool.h>

#include "common/link.h"

struct event;
struct event_base;
struct private;

struct inquiry {
	/* Yours, before the start. */
	const char *command; /* "ps": begins every line */
	const char *lost;    /* behind the news that the broker died before it answered */
	void (*on_ready)(struct inquiry *q);
	/* An answer, which is no refusal, or a notification. */
	void (*on_message)(struct inquiry *q, const struct message *m);
	void *arg;
	/* Its own; starts as zeroes. */
	const char *path; /* of the daemon's socket; NULL: a caissond of ours */
	struct event_base *base;
	struct link *link; /* NULL: not there yet, or ended */
	struct event *late;
	struct private *private;
	bool greeted, gone, ended;
	int status;
};

/*
 * Asks the daemon at `path`, or starts caissond with these words and asks the broker that it
 * finds, until inquiry_end().  The client is confined before the first byte is read.  Returns
 * the exit status.
 */
int inquiry_dial(struct inquiry *q, const char *path);
int inquiry_start(struct inquiry *q, int argc, char **argv);

/* Sends a request; if memory is out, says so and ends. */
void inquiry_ask(struct inquiry *q, enum msg_type type, const void *m);
/* There is nothing left to ask; the first status counts. */
void inquiry_end(struct inquiry *q, int status);
/* It cannot be done: "caisson: COMMAND: ...", and the end with 125. */
void inquiry_fail(struct inquiry *q, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes it all to standard output and empties it; a reader that has gone away is none that
 * needs it.  False after a line that says why it cannot be written. */
bool inquiry_print(const struct inquiry *q, struct buf *out);

#endif /* CLIENT_INQUIRY_H */
