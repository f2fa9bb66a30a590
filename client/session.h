/*
 * session: `caisson session`: acquire sessions of a daemon, look at them, release them.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include "common/options.h"

/* Returns the exit status: 0, or 125 with a line on standard error. */
int session_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_SESSION_H */
