/*
 * learn: which system calls one program makes, and the profile that would leave it these.
 *
 * NOT A SANDBOX: what is on no list of the base is noted and goes on.  Every other layer stays
 * on, and so does what no profile may allow (profiles_never.def), and other architectures: the
 * listener's owner ends the chamber at these.  This is the only place that lets a call
 * continue, and only number and architecture of it are looked at.
 *
 *   learn.c           the filter, the answers, what was seen
 *   learn_proposal.c  what was seen, as a configuration
 *   learn_run.c       `caisson learn`: its beginning and its end
 */
#ifndef SUPERVISOR_LEARN_H
#define SUPERVISOR_LEARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/endings.h"

struct conf_profile;
struct exit_facts;
struct learn;
struct profile;

#define LEARN_PROFILE "learned" /* id of what is proposed */
#define LEARN_CALLS   1024	/* numbers above are other architectures' */

/* What the base says of a call. */
enum learn_class {
	LEARN_NEW,   /* nothing */
	LEARN_CORE,  /* on no account asked about, but beyond its conditions */
	LEARN_PLAIN, /* allowed, whatever its arguments */
	LEARN_ERROR, /* refused with an errno, whatever its arguments */
	/* Both by its arguments, which are the base's to look at: asked about where the base
	 * says nothing, or, if it has a rule for all of them, where it allows. */
	LEARN_BEYOND,
	LEARN_PARTLY,
};

struct learn_call {
	uint8_t class; /* enum learn_class */
	bool used;     /* it was asked about */
	bool never;    /* some of it no profile may allow */
	int error;     /* with LEARN_ERROR */
};

/*
 * For a program under `profile`, whose calls are compared with those of `root`, the built-in
 * one that it comes from; the two may be one.  Both are borrowed.  Returns 0; -ENOMEM, or what
 * profile_create() does.
 */
int learn_create(const struct profile *profile, const struct profile *root, struct learn **ret);
/* Accepts NULL. */
void learn_destroy(struct learn *l);

/* The profile to launch with, named "learn": that of learn_create() with another filter. */
const struct profile *learn_profile(const struct learn *l);

/*
 * The answer to a notification: flags and error of a struct seccomp_notif_resp.  False: there
 * is none, the call must never happen, and the chamber has to end.
 */
bool learn_answer(struct learn *l, uint32_t nr, uint32_t arch, uint32_t *ret_flags,
    int32_t *ret_error);

/* The program is gone.  NULL is allowed, and nothing. */
void learn_on_exit(struct learn *l, const struct exit_facts *exit);

/* How it ended; NULL as long as it has not. */
const struct exit_facts *learn_exit(const struct learn *l);
/* `nr` is below LEARN_CALLS. */
const struct learn_call *learn_call(const struct learn *l, uint32_t nr);
const struct profile *learn_root(const struct learn *l);

/*
 * Prints a configuration with one profile, LEARN_PROFILE, over the root: what was used and is
 * not allowed there is, and what was not used ends.  With `onto`, what a run before proposed:
 * that, and what this run used besides.  `command` is printed as a comment.  learn_exit() is
 * there.
 */
void learn_propose(FILE *f, const struct learn *l, const struct conf_profile *onto,
    char *const *command);

#endif /* SUPERVISOR_LEARN_H */
