/*
 * logs: `caisson logs`: what the operations of a session have written, one after the other.
 */
#ifndef CLIENT_LOGS_H
#define CLIENT_LOGS_H

#include "common/options.h"

/* Returns the exit status: 0, or 125 with a line on standard error. */
int logs_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_LOGS_H */
