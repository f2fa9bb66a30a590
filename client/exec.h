/*
 * exec: `caisson exec`, one plain command in a chamber: a faithful filter.  Standard input
 * goes in within the broker's credit, raw output comes out, signals and a closed output
 * reach the command, and its exit status is ours.
 */
#ifndef CLIENT_EXEC_H
#define CLIENT_EXEC_H

#include "common/options.h"

/* argv[0] is "exec".  Returns the exit status of caisson(1). */
int exec_main(const struct options *o, int argc, char **argv);

/*
 * The same for `caisson learn`: without --output the command's standard output goes to standard
 * error, and caissond is given ours.  `*ret_proposed`: it wrote its proposal.
 */
int exec_learn(const struct options *o, int argc, char **argv, bool *ret_proposed);

#endif /* CLIENT_EXEC_H */
