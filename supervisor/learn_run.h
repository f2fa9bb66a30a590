/*
 * learn_run: the beginning and the end of `caisson learn`: the base, and where the proposal
 * goes.
 *
 * The one file it ever makes is that of --output, which must not be there, and is only made
 * once there is a proposal to be in it: in the folder that was meant when it began, whatever
 * the program, which may be able to write there, has done to the path since.
 */
#ifndef SUPERVISOR_LEARN_RUN_H
#define SUPERVISOR_LEARN_RUN_H

#include "common/options.h"
#include "supervisor/config.h"

struct learn;

struct learn_run {
	const struct options *o;
	struct learn *learn;
	struct conf_namespace onto; /* of --onto */
	const struct conf_profile *profile; /* in it; NULL: nothing came before */
	int folder_fd;	  /* of --output; -1: none */
	const char *name; /* of the file in it */
};
#define LEARN_RUN_NONE ((struct learn_run){ .folder_fd = -1 })

/*
 * `c` is the configuration of the run, whose profile is the base without --onto; both it and
 * `o` must live on.  Returns 0; or a negative errno with one line in `err`.  `ret` can be
 * finished either way.
 */
int learn_run_begin(const struct options *o, const struct conf_namespace *c,
    struct learn_run *ret, char err[CONF_ERROR_MAX]);

/*
 * Writes the proposal to --output, or else to PRIVATE_FD_PROPOSAL.  Returns 0; or a negative
 * errno with one line in `err`, among them ECANCELED: no program ran.  Then there is no file.
 */
int learn_run_end(const struct learn_run *r, char err[CONF_ERROR_MAX]);
void learn_run_finish(struct learn_run *r);

#endif /* SUPERVISOR_LEARN_RUN_H */
