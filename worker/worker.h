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

/* What was found absent before the plan was known: ends likewise unless `p` lets it be. */
void layers_recheck(const struct plan *p);

/* Which descriptor die() and report() write to. */
void report_init(int fd);
/* One struct up the launch socket, with `fd` unless it is -1.  Ends if the supervisor has. */
void report(enum launch_stage stage, int value, int fd);
/* True once the supervisor has closed its end. */
int report_is_hung_up(void);

#define STEPS_MAX 1024u

/* A plan, and what goes with it. */
struct order {
	struct plan plan;
	int fds[PLAN_FDS_MAX]; /* the program's, `nfds` of the plan */
	int status_fd; /* init's pipe; -1 without PLAN_INIT */
	int plan_fd; /* of one that was received */
	int trees[STEPS_MAX]; /* by step: groups, detached mounts; -1: none */
};

/*
 * order.c: how a plan comes.  The first is a descriptor of the launcher's; the order of a
 * chamber that stood by comes down the launch socket, and from there to pid 1.
 */
/* A private copy, checked, which nobody can change under us. */
void plan_read(int fd, struct plan *ret);
/* Notes how far LAYER_UID will hold. */
void order_note(const struct plan *p);
/* The same, and lets the chamber's uid open its pipes by name. */
void order_own(const struct order *o);
/* Waits for an order; false: the other end has been closed, which is no order any more. */
bool order_receive(int socket_fd, bool with_trees, struct order *ret);
/* Hands it on, with its private trees. */
void order_pass(const struct order *o, int socket_fd);
/* For how many of the steps of `p` there is a tree to be handed on. */
unsigned order_trees(const struct plan *p);

/* stand.c: the two processes of a chamber that stands by, until its order has come. */
/* The launcher, while it sees the host. */
void stand_prepare(const struct plan *p);
/* The launcher: reports, waits; `o`, until then what it was started with, is the order. */
void stand_wait(struct order *o);
/* Pid 1: waits, and goes on as any other. */
_Noreturn void chamber_stand(struct order *o, int gate_fd);

/* groups.c: the control groups of the chamber; in `trees`, by step, while they can be named. */
bool groups_are_there(const struct plan *p);
void groups_open(const struct plan *p, int *trees);
/* The directory of cgroup v2 that the chamber is born in, -1: none. */
int groups_into(const struct plan *p, const int *trees);
void groups_join(const struct plan *p, const int *trees, pid_t pid);

/*
 * ground.c: what a chamber stands on: namespaces that many may share and none can change.
 * The launcher enters those that the supervisor holds, makes and hands up the others.
 */
/* `first_fd`: the first of the descriptors that PLAN_HAS_... speaks of. */
void ground_init(const struct plan *p, int first_fd);
/* Afterwards the launcher's root is the chamber's, but for what is its own: for that
 * `trees` has a detached mount for each private PLAN_BIND (by step). */
void ground_enter(const struct plan *p, int *trees);
/* Takes the place `fd` for what ground_open_proc() needs. */
void ground_move(int fd);
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
/* Mounts what is private: the last step, by pid 1; but for /proc, which stands already. */
void root_complete(const struct plan *p, const int *trees);
/* The chamber's /proc, by pid 1. */
void root_complete_proc(const struct plan *p);
/* A /proc of the caller's pid namespace, detached. */
int root_proc(unsigned attr);

/* confine.c: the layers that follow, each of which cannot be taken back. */
void confine_groups(const struct plan *p); /* in the launcher, where they may be dropped */
void confine_namespaces(void); /* names, and no further user namespaces */
void confine_rlimits(void); /* those that no plan decides */
void confine_sizes(const struct plan *p); /* the others; with them the layer holds */
/*
 * The one limit that is the program's alone.  Without root all chambers are one user's, and who
 * hands a descriptor on may be refused for what that user's chambers have under way: the limit
 * of pid 1, which reports with one, must be above theirs.
 */
void confine_descriptors(const struct plan *p);
void confine_bounding(void); /* no program has any capability that it could be given */
void confine_capabilities(void);
void confine_landlock(const struct plan *p);
void confine_mdwe(const struct plan *p);
/* Loads the filter; returns its listener, or -1 where there can be none and the
 * filter kills instead. */
int confine_filter(const struct plan *p);

/* chamber.c: the life of pid 1. */
/* Until the launcher says that we may go on; its death is our end. */
void chamber_wait(int release_fd);
/* What needs neither a uid nor a program; `p` may be that of one that stands by. */
void chamber_prepare(const struct plan *p);
/* The rest; `prepared`: that has been done. */
_Noreturn void chamber_main(const struct order *o, bool prepared);

/* program.c: enters the program in this process; pid 1 itself, or a child of it. */
_Noreturn void program_enter(const struct plan *p, int launch_fd);

/* idmap.c: a user namespace in which `owner` outside is `uid`; for id-mapped mounts. */
int idmap_userns(uid_t owner, gid_t group, uid_t uid, gid_t gid);

/* The maps of a process's namespace, which have one uid and gid, and are written once. */
struct idmap {
	int uid_fd, gid_fd;
};
/* Denies `pid` setgroups, and opens its maps.  0; -ESRCH if it is gone; another negative errno,
 * and then idmap_close() has still to be called. */
int idmap_open(pid_t pid, struct idmap *ret);
int idmap_set(
    const struct idmap *m, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid);
void idmap_close(struct idmap *m);
/* All of it. */
int idmap_write(pid_t pid, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid);

#endif /* WORKER_WORKER_H */
