/*
 * top: `caisson top`, what a daemon's processes use, again and again.
 */
#ifndef CLIENT_TOP_H
#define CLIENT_TOP_H

#include "common/options.h"

/* Returns the exit status: 0 after so many samples as were asked for, or 125 with a line on
 * standard error. */
int top_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_TOP_H */
