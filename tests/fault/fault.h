/*
 * fault: the failure matrix.  One launch is made in a process of its own, the subject, all of
 * whose calls and its children's a tracer sees; it answers one of them with an error instead of
 * letting the kernel make it.  The programs of a launch are those that are shipped.
 *
 * The subject says how the launch ended and what is left of it; the tracer, whether the
 * target was executed, which is the kernel's own word.  Whether that is as it should be,
 * tests/integration/test_matrix.py says.
 */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Who makes a call: the letter that stands for it in listings and in calls.tsv. */
enum role {
	ROLE_SUPERVISOR,
	ROLE_SPAWN, /* the supervisor's child, before the launcher is executed */
	ROLE_LAUNCHER,
	ROLE_HELPER, /* children of the launcher that live for a call or two */
	ROLE_INIT,
	ROLE_RUNTIME,
	ROLE_MAX
};

#define FAULT_CALLS 512 /* numbers of system calls */

/* A kind of launch: what stands on what, and who is asked. */
struct kind {
	const char *name;
	const char *profile;
	bool rooted; /* as root, with a uid, id-mapped mounts, control groups */
	bool init;
	bool warm;	   /* the ground is there already */
	bool first;	   /* nothing has been looked up yet, either */
	bool stood;	   /* its first half is done, and not counted; warm, too */
	bool network;	   /* the host's */
	const char *roles; /* whose calls differ from those of the kinds above */
};

/* How the subject's launch ended, in memory that it shares with the tracer. */
enum event_kind {
	EVENT_NONE,	 /* the subject did not live to tell */
	EVENT_UNSTARTED, /* launch_start() said so */
	EVENT_REFUSED,
	EVENT_EXIT,
	EVENT_LOOP, /* the subject's event loop failed, as the daemon's would: it ended */
};

struct outcome {
	bool begun, told; /* what is not between the two is no part of it */
	enum event_kind event;
	uint32_t layer;
	int error;
	int status;	/* EVENT_EXIT: exit status, or 128 + signal */
	char why[512];	/* what launch_explain() says */
	char left[256]; /* what is left of it, in words; "": nothing */
};

/* One call to be answered with `error`; 0: none. */
struct fault {
	enum role role;
	unsigned call, nth; /* from 1 */
	int error;
};

/* What the tracer saw. */
struct sight {
	bool hit;  /* the fault was injected */
	bool late; /* after the target was executed */
	bool ran;  /* the target was executed */
	bool hung; /* and was killed */
	uint32_t count[ROLE_MAX]
		      [FAULT_CALLS]; /* of each call; of the runtime, until its exec */
};

/* subject.c */
/* What may be done once for all launches of `k`.  0, or -1 with a word on standard error. */
int subject_prepare(const struct kind *k);
/* Launches /bin/true as `k` says, where one stands by after a byte from `wake_fd`; if `again`
 * once more, without a fault; exits. */
_Noreturn void subject_run(
    const struct kind *k, bool again, int wake_fd, struct outcome *ret);

/* trace.c: runs a subject of `k` to its end, with `f`. */
void trace_run(
    const struct kind *k, const struct fault *f, struct outcome *outcome, struct sight *ret);

#endif /* FAULT_FAULT_H */
