/*
 * follow: the events of one operation of a session, on their way to the standard streams.
 *
 * Owns the event loop, the sinks and what Ctrl-C means: the first cancels the operation, the
 * second leaves it to itself.  A reader who has gone away detaches, too: the operation goes on
 * (OP-26).
 */
#ifndef CLIENT_FOLLOW_H
#define CLIENT_FOLLOW_H

#include "client/remote.h"

struct follow {
	const char *command; /* "send": begins every line */
	const struct options *options;
	struct caisson_session *session;
	/* Only up to its accepted event, whose id is printed. */
	bool detach;
	/* Cancel it as soon as it is known. */
	bool cancel;
};

/* Something was sent or resumed on the session.  Returns the exit status: that of what the
 * operation was, or 125 after a line. */
int follow_operation(const struct follow *f);

#endif /* CLIENT_FOLLOW_H */
