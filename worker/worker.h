/*
 * worker: what the files of the launcher share.
 *
 * Two processes run this program: the launcher, in the host's namespaces, which opens
 * the operator's directories, makes the chamber's first process and gives it its uid;
 * and that process, pid 1, which builds the chamber around itself and starts the program
 * in it.  Both are single-threaded, read nothing but the plan, and end at the first
 * failure with a report of the layer: nothing here returns an error.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "worker/plan.h"

/* Reports `layer` and `error` (errno, positive) to the supervisor, and ends the process. */
_Noreturn void die(enum layer layer, int error);

/* `layer` holds; `value` is 1, or what LAYER_... of common/control.h says. */
void layer_applied(enum layer layer, int value);
/* `layer` cannot be had here: ends like die() unless the plan lets it be absent. */
void layer_absent(const struct plan *p, enum layer layer, int error);

/* Which descriptor die() and report() write to. */
void report_init(int fd);
/* One struct up the launch socket, with `fd` unless it is -1.  Ends if the supervisor has. */
void report(enum launch_stage stage, int value, int fd);
/* True once the supervisor has closed its end. */
int report_is_hung_up(void);

/*
 * ground.c: what a chamber stands on: namespaces that many may share and none can change.
 * The launcher enters those that the supervisor holds, makes and hands up the others.
 */
/* `first_fd`: the first of the descriptors that PLAN_HAS_... speaks of. */
void ground_init(const struct plan *p, int first_fd);
/* Afterwards the launcher's root is the chamber's, but for what is its own: for that
 * `trees` has a detached mount for each private PLAN_BIND (by step). */
void ground_enter(const struct plan *p, int *trees);
/* Opens beneath the host's /proc, which is out of reach once the root has changed. */
int ground_open_proc(const char *path, int flags);
/* A /proc, detached, of a pid namespace in which nobody is. */
int ground_proc(void);

/*
 * sources.c: what the operator shows in the chamber.  One detached mount for each PLAN_BIND
 * of the plan, or for each private one, in `trees` (by step).
 */
void sources_open(const struct plan *p, int *trees, bool only_private);

/* root.c */
/* Builds what is not private of a root, enters it, and leaves the old one. */
void root_build(const struct plan *p, const int *trees);
/* Mounts what is private: the last step, by pid 1. */
void root_complete(const struct plan *p, const int *trees);
/* A /proc of the caller's pid namespace, detached. */
int root_proc(unsigned attr);

/* confine.c: the layers that follow, each of which cannot be taken back. */
void confine_groups(const struct plan *p); /* in the launcher, where they may be dropped */
void confine_namespaces(void); /* names, and no further user namespaces */
void confine_rlimits(const struct plan *p);
/*
 * The one limit that is the program's alone.  Without root all chambers are one user's, and who
 * hands a descriptor on may be refused for what that user's chambers have under way: the limit
 * of pid 1, which reports with one, must be above theirs.
 */
void confine_descriptors(const struct plan *p);
void confine_capabilities(void);
void confine_landlock(const struct plan *p);
void confine_mdwe(const struct plan *p);
/* Loads the filter; returns its listener, or -1 where there can be none and the
 * filter kills instead. */
int confine_filter(const struct plan *p);

/* chamber.c: the life of pid 1, from its first instruction. */
_Noreturn void chamber_main(const struct plan *p, int *trees, int release_fd, int status_fd);

/* program.c: enters the program in this process; pid 1 itself, or a child of it. */
_Noreturn void program_enter(const struct plan *p, int launch_fd);

/* idmap.c: a user namespace in which `owner` outside is `uid`; for id-mapped mounts. */
int idmap_userns(uid_t owner, gid_t group, uid_t uid, gid_t gid);
/* Writes uid_map and gid_map of `pid`: one uid and gid, setgroups denied.  0;
 * -ESRCH if it is gone; another negative errno. */
int idmap_write(pid_t pid, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid);

#endif /* WORKER_WORKER_H */
