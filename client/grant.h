/*
 * grant: `caisson grant`: authority, by the operator (D-17, D-18).  Asks the broker of a
 * daemon, or with -c the one of whoever holds the namespace's lock, which may be a caissond of
 * ours.
 */
#ifndef CLIENT_GRANT_H
#define CLIENT_GRANT_H

#include "common/options.h"

/* Returns the exit status: 0; 3 if `why` says no; 125 with a line on standard error. */
int grant_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_GRANT_H */
