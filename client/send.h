/*
 * send: `caisson send`, `receive` and `cancel`: operations of a session.
 */
#ifndef CLIENT_SEND_H
#define CLIENT_SEND_H

#include "common/options.h"

/* Each returns the exit status: what the operation's is, or 125 with a line on standard
 * error. */
int send_main(const struct options *o, int argc, char **argv);
int receive_main(const struct options *o, int argc, char **argv);
int cancel_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_SEND_H */
