/*
 * run: `caisson run`, one turn in the foreground.  Events go to standard output as JSON
 * lines, or for people: calls on standard error, the result as JSON on standard output.
 */
#ifndef CLIENT_RUN_H
#define CLIENT_RUN_H

#include "common/options.h"

/* argv[0] is "run".  Returns the exit status of caisson(1). */
int run_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_RUN_H */
