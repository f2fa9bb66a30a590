/*
 * operation: one operation of a private caissond, or with --socket of a daemon, from submission
 * to its one ending.
 *
 * Owns the event loop, the private caissond, the link to the broker and the sinks of the
 * standard streams; `run` and `exec` say what to submit, what events look like and what a
 * signal means.  After a broker's death it attaches to the next one and reads the recorded
 * ending; nothing is ever submitted twice (D-10, D-11).
 */
#ifndef CLIENT_OPERATION_H
#define CLIENT_OPERATION_H

#include <stdbool.h>

#include "client/sink.h"
#include "common/link.h"
#include "common/options.h"

struct operation;

struct operation_mode {
	/* What is asked for; slices must live as long as the operation. */
	void (*fill)(struct operation *op, struct msg_operation_submit *m);
	/* The operation has an id and a link: at admission, again after a broker's death. */
	void (*on_attached)(struct operation *op);
	/* One event, in order; the terminal one is the last. */
	void (*on_event)(struct operation *op, const struct msg_operation_event *e);
	/* So many more bytes of input; 0: no more at all.  NULL: none may come. */
	void (*on_credit)(struct operation *op, uint32_t bytes);
	/* The link is gone; NULL if nobody cares. */
	void (*on_detached)(struct operation *op);
	/* The operation is attached; `nth` counts from 1 what Ctrl-C counts. */
	void (*on_signal)(struct operation *op, int signo, unsigned nth);
	/* Nobody reads a standard stream any more; called once for it, attached. */
	void (*on_closed)(struct operation *op, enum stream stream);
	/* Of a terminal event. */
	int (*exit_status)(const struct msg_operation_event *e);
	/* Of a signal before anything was submitted. */
	int (*exit_signaled)(int signo);
	/* caissond was reaped; `status` is of waitpid().  NULL if nobody cares. */
	void (*on_gone)(struct operation *op, int status);
	int proposal_fd; /* for caissond (client/private.h); 0: none */
	const int *signals; /* what on_signal wants, 0-terminated */
	bool
	    /* else SIGINT alone counts towards the third, which ends us */
	    every_signal_cancels;
};

struct operation {
	struct event_base *base;
	const struct options *options;
	const struct operation_mode *mode;
	void *arg; /* of the mode */
	struct link *link;
	struct sink *sinks[2]; /* by enum stream */
	char *id;	       /* NULL until known */
	bool attached;	       /* link and id are there: on_attached has been called */
	/* The rest is operation.c's own. */
	struct private *private; /* NULL with --socket */
	struct dial *dial;	 /* NULL without */
	struct event **signals;
	unsigned nsignals, interrupts;
	uint64_t pending;  /* mask of signals that wait for on_attached */
	uint64_t sequence; /* of the last event seen */
	int next_fd;	   /* the next broker's link, while the last one is still being read */
	bool submitted, ended, gone, paused;
	bool closed[2]; /* on_closed was called for it, or waits for on_attached */
	int status;
};

/* Does it all.  argv[0] is the command's word.  Returns the exit status. */
int operation_perform(const struct operation_mode *mode, void *arg,
    const struct options *options, int argc, char **argv);

/* For modes: cancels; with `kill` without the kill grace. */
void operation_stop(struct operation *op, bool kill);

/* For modes: the one line that says why it is no success, if there is anything to say. */
void operation_say_reason(struct operation *op, const struct msg_operation_event *e);

#endif /* CLIENT_OPERATION_H */
