/*
 * ps: `caisson ps`, what a daemon runs.  Asks its broker once, over its local socket.
 */
#ifndef CLIENT_PS_H
#define CLIENT_PS_H

#include "common/options.h"

/* Returns the exit status: 0, or 125 with a line on standard error. */
int ps_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_PS_H */
