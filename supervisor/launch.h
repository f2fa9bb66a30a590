/*
 * launch: one child in one chamber, from fork to the exit facts.
 *
 * Packs the plan (worker/plan.h), starts the launcher, follows the hand-shake of
 * docs/ARCHITECTURE.md, "Launch", holds the pidfds of pid 1 and of the runtime, serves the
 * seccomp listener, kills, and reads the exit facts.  Never reads anything that the
 * program wrote.  Single-threaded, on one event_base; children are made from the thread
 * that made the base, as the parent-death signal follows that thread.
 */
#ifndef SUPERVISOR_LAUNCH_H
#define SUPERVISOR_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "common/control.h"
#include "common/endings.h"

struct event_base;
struct cgroup_usage;
struct launch;
struct learn;
struct profile;

/* One directory or file of the operator's, shown in the chamber. */
struct chamber_mount {
	/* Absolute, or relative to the caller's working directory; ELOOP if any part of it is a
	 * link, which a chamber could have put there: resolve it when the configuration is
	 * read. */
	const char *source;
	const char *target; /* absolute, in the chamber */
	bool writable;
	bool executable; /* though it is writable: what cannot be written always is */
	bool idmap; /* as root: the chamber's uid stands for the owner of `source` */
};

/* What a chamber is.  Everything is borrowed until launch_start() returns. */
struct chamber {
	/* Filter, defaults of the limits, and what the root looks like
	 * (supervisor/profiles.h). */
	const struct profile *profile;
	char *const *argv; /* argv[0] is looked up in the chamber's PATH unless it has a slash */
	char *const *env; /* NAME=VALUE, the whole environment */
	const char *cwd; /* in the chamber */
	const struct chamber_mount *mounts;
	size_t nmounts;
	/* Descriptors for 0, 1, 2 and RUNTIME_FD_LINK...; -1 in 0..2 is /dev/null.  Stay the
	 * caller's. */
	const int *fds;
	size_t nfds;
	bool init; /* a reaping pid 1 above the program; false: the program is pid 1 (broker, ledger) */
	bool die_with_parent; /* false for broker and ledger, which settle at end-of-file first */
	bool cold; /* take none that stood by */
	bool network; /* keep the host's network; only providers with declared hosts */
	/* Limits; 0: the profile's default. */
	uint64_t memory_bytes, tmp_bytes, file_bytes, cpu_percent, cpu_seconds;
	unsigned pids, open_files;
	uint32_t required; /* 1 << enum layer: must hold even where the profile calls it optional */
	/* As root: the uid and gid outside, claimed by uid_claim(); rootless: ignored. */
	uid_t uid;
	gid_t gid;
	/* Answers what its filter asks (learn.h), as long as the launch lives; NULL: nobody
	 * does. */
	struct learn *learn;
};

/*
 * How far each layer of a chamber holds, by enum layer: above 0 it was applied
 * (LAYER_LANDLOCK: the kernel's ABI); 0: it is no part of this chamber; below 0 it is absent,
 * as its profile lets it be: the negative errno of the try.  launch_explain() says why.
 */
struct launch_layers {
	int16_t state[LAYER_MAX];
};

struct launch_handler {
	/* The exec has happened. */
	void (*on_started)(struct launch *l, void *arg);
	/* Not born: nothing of it is left.  `exit` where the launcher died by itself.  `l` is
	 * freed on return. */
	void (*on_refused)(struct launch *l, enum layer layer, int error,
	    const struct exit_facts *exit, void *arg);
	/* Gone, reaped, and everything below it; `l` is freed when this returns. */
	void (*on_exit)(struct launch *l, const struct exit_facts *exit, void *arg);
};

/*
 * Starts a launch.  Returns 0 and `*ret`; on failure before anything was started a negative
 * errno and the layer in `*ret_layer` (handlers are then not called).
 */
int launch_start(struct event_base *base, const struct chamber *c,
    const struct launch_handler *handler, void *arg, struct launch **ret, enum layer *ret_layer);

/* Kills the whole tree now; the exit facts repeat `cause` if SIGKILL is what ended it.
 * The first cause stands.  May be called at any time before on_exit. */
void launch_kill(struct launch *l, enum ending cause);

/* Sends a signal to the program, not to its descendants.  Returns 0 or a negative errno. */
int launch_signal(struct launch *l, int signo);

/* Numbers of the program's own processes, for status and tests: pid 1 of the chamber, in
 * our pid namespace; 0 until it is born and once it is reaped. */
pid_t launch_pid(const struct launch *l);

/* Of the program itself, which is pid 1 where there is no init; 0 likewise. */
pid_t launch_program_pid(const struct launch *l);

/* False if it is known to end, or has ended: asks the kernel, before any event comes. */
bool launch_lives(const struct launch *l);

/* Was its first half there before it was wanted (standby.h)? */
bool launch_stood_by(const struct launch *l);

/*
 * In on_refused: one that stood by was lost, killed or crashed, before its program had leave to
 * run.  What stood by is to make no launch fail: its owner may start another, `cold`.
 */
bool launch_may_go_cold(const struct launch *l);

/* What its group counts so far (supervisor/cgroup.h). */
void launch_usage(const struct launch *l, struct cgroup_usage *ret);

/* Valid, and final, from on_started on, as long as `l` is. */
const struct launch_layers *launch_layers(const struct launch *l);

/* One line: what `layer` with `error` means on this machine and what to do about it. */
void launch_explain(enum layer layer, int error, char *buf, size_t cap);

/* A line per optional layer that this machine lacks, "" if none; valid for the process. */
const char *launch_absent(void);

#endif /* SUPERVISOR_LAUNCH_H */
