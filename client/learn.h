/*
 * learn: `caisson learn`: one command whose calls are noted instead of refused, and the profile
 * that is proposed from them (supervisor/learn.h).
 *
 * NOT A SANDBOX, and says so before and after.  Standard output is the proposal's, unless
 * --output names a file for it: the command's own goes to standard error then.
 */
#ifndef CLIENT_LEARN_H
#define CLIENT_LEARN_H

#include "common/options.h"

/* Never 0, whatever the command did: nothing here says that it is safe. */
enum { EXIT_PROPOSED = 1 };

/* Returns EXIT_PROPOSED, or 125 where nothing was. */
int learn_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_LEARN_H */
