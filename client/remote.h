/*
 * remote: commands that speak to a daemon through libcaisson: where it is, who asks, and which
 * session is meant.
 */
#ifndef CLIENT_REMOTE_H
#define CLIENT_REMOTE_H

#include "client/lib/internal.h"
#include "common/options.h"

/*
 * A client of the daemon or gateway that the command line or the environment names; NULL after
 * a line on standard error that begins with `command`.
 */
struct caisson_client *remote_client(const struct options *o, const char *command);

/*
 * The session that `word` names, RUNTIME/ID or, at a local socket, ID alone.  NULL after a line
 * on standard error.
 */
struct caisson_sandbox *remote_sandbox(
    struct caisson_client *c, const char *command, const char *word);

/* "caisson: COMMAND: ..." in one line, with what to do about it.  Returns the exit status. */
int remote_explain(const char *command, const struct caisson_error *error);

/* Nothing can be opened from here on.  0, or the exit status after a line. */
int remote_confine(const char *command);

#endif /* CLIENT_REMOTE_H */
