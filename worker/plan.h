/*
 * plan: what the supervisor tells the launcher, and what comes back.
 *
 * A plan is one memfd: a fixed header, then tables at the offsets that it names, then a
 * string area in which every reference ends at a NUL.  The supervisor wrote it, so it is
 * trusted; plan_check() still refuses whatever points outside, as a wrong plan must
 * never become a chamber with a hole.  Its size is sealed.  Its content is not: the
 * kernel writes the pid of the chamber's pid 1 into `birth_pid` in the very call that
 * makes it (CLONE_PARENT_SETTID), so that a launcher killed after that call leaves no
 * child that the supervisor does not know.
 */
#ifndef WORKER_PLAN_H
#define WORKER_PLAN_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "common/control.h"

#define PLAN_MAGIC   0x4e41504cu
#define PLAN_VERSION 6u
#define PLAN_MAX     (1u << 20) /* bytes: arguments and environment of one program */
#define PLAN_FDS_MAX 64u
#define PLAN_NONE    UINT32_MAX /* no string */

/* The chamber's own uid and gid, whatever they are outside. */
#define PLAN_INSIDE_UID 1000u
#define PLAN_INSIDE_GID 1000u

enum plan_flag {
	PLAN_INIT = 1u << 0, /* a reaping pid 1 above the program */
	PLAN_DIE_WITH_PARENT = 1u << 1,
	PLAN_NETWORK = 1u << 2, /* keep the host's network */
	PLAN_ROOT = 1u << 3, /* uids can be given; sources are opened outside the chamber */
	PLAN_MDWE = 1u << 4, /* no memory that was writable becomes executable */
	PLAN_SHARED_NETWORK = 1u << 5, /* the empty namespace that many chambers share */
	PLAN_KEEP_ROOT = 1u << 6, /* the root may serve other chambers: hand it up */
	/* Descriptors of namespaces that the supervisor holds, after all others and in this
	 * order. */
	PLAN_HAS_USER = 1u << 7, /* without root: the owner of the other two */
	PLAN_HAS_NETWORK = 1u << 8,
	PLAN_HAS_TIME = 1u << 9,
	PLAN_HAS_ROOT = 1u << 10, /* a mount namespace that looks as the plan says */
	PLAN_TIME = 1u << 11, /* clocks that do not tell since when the host is up */
	PLAN_ANSWERED = 1u << 12, /* its listener answers: signals wait for that where they can */
	/* No program yet: what the launcher and pid 1 do first, and then wait for their
	 * order. */
	PLAN_STAND = 1u << 13,
	PLAN_SHOWS_PROC = 1u << 14, /* it has a step PLAN_PROC, for "/proc" */
};

/* What is decided before the order, and so must be the order's, too. */
#define PLAN_KIND \
	(PLAN_NETWORK | PLAN_ROOT | PLAN_SHARED_NETWORK | PLAN_TIME | PLAN_SHOWS_PROC)

/* What the launcher does to build the root, in this order. */
enum plan_op {
	PLAN_CGROUP = 1, /* source: a cgroup.procs file that the chamber's pid is written to */
	PLAN_CGROUP_INTO, /* source: a directory of cgroup v2 that it is born in */
	PLAN_DIR, /* target */
	PLAN_FILE, /* target; source: its content */
	PLAN_SYMLINK, /* target; source: what it points at */
	PLAN_BIND, /* target; source: a file or directory of the host */
	PLAN_TMPFS, /* target; size and inodes */
	PLAN_PROC, /* target */
	PLAN_OP_MAX
};

enum plan_access {
	PLAN_WRITABLE = 1u << 0,
	PLAN_EXECUTABLE = 1u << 1, /* Landlock lets programs be started from it */
	PLAN_IDMAP = 1u << 2, /* the chamber's uid stands for the owner of `source` */
	PLAN_DEVICE = 1u << 3, /* a device node that must work */
	PLAN_PRIVATE = 1u << 4, /* pid 1 mounts it: not in the root that others may share */
};

struct plan_step {
	uint32_t op; /* enum plan_op */
	uint32_t access; /* enum plan_access */
	uint32_t target, source; /* string offsets, or PLAN_NONE */
	uint64_t size_bytes, inodes; /* PLAN_TMPFS */
};

struct plan_header {
	uint32_t magic, version;
	uint32_t size_bytes; /* of the whole plan */
	uint32_t flags; /* enum plan_flag */
	uint32_t optional; /* 1 << enum layer: may be absent, and is then reported */
	uint32_t root_id; /* of the root that PLAN_HAS_ROOT or PLAN_KEEP_ROOT speaks of; 0: none */
	int32_t birth_pid; /* written by the kernel, in the supervisor's pid namespace */
	uint32_t nfds; /* descriptors 0..nfds-1 of the program, at LAUNCH_FD_FIRST... */
	uint32_t uid, gid; /* outside */
	uint32_t steps, nsteps; /* struct plan_step */
	uint32_t argv, argc; /* uint32_t string offsets */
	uint32_t env, envc;
	uint32_t filter, nfilter; /* struct sock_filter; none: no filter */
	uint32_t strings, strings_len;
	uint32_t cwd; /* string */
	uint32_t stop; /* string: the stop point to die at; only read with CAISSON_TEST_STOPS */
	/* rlimits; UINT64_MAX: none */
	uint64_t address_space, file_size, open_files, processes, cpu_seconds;
};

/* A plan that passed plan_check(); borrowed from its bytes. */
struct plan {
	const struct plan_header *h;
	const struct plan_step *steps;
	const uint32_t *argv, *env;
	const struct sock_filter *filter;
	const char *strings;
};

/* Checks `n` bytes, 8-aligned.  Returns 0 and the view, or -EINVAL. */
int plan_check(const void *bytes, size_t n, struct plan *ret);

/* The string at a checked offset; NULL for PLAN_NONE. */
const char *plan_string(const struct plan *p, uint32_t offset);

/* Steps of the hand-shake, in the order in which they may arrive. */
enum launch_stage {
	STAGE_ERROR = 1, /* layer, error: the launch failed; nothing follows */
	STAGE_USER, /* with a namespace that the plan did not bring: see PLAN_HAS_... */
	STAGE_NETWORK,
	STAGE_TIME,
	STAGE_ROOT,
	STAGE_STANDING, /* pid 1 has done all that needs no order; only with PLAN_STAND */
	STAGE_RUNTIME, /* with the runtime's pidfd; only with PLAN_INIT */
	STAGE_LISTENER, /* value: number of the listener in the runtime's process, or -1 */
	STAGE_EXEC, /* the next thing is the exec: end-of-file now means started */
	STAGE_MAX
};

/* Of one message: the kernel's SCM_MAX_FD. */
#define ORDER_FDS_MAX 253u

/*
 * Up the launch socket.  Down it: with PLAN_STAND first the order, one byte with the plan, the
 * program's descriptors and, with PLAN_INIT, init's pipe; then one byte after STAGE_LISTENER.
 */
struct launch_report {
	uint32_t stage; /* enum launch_stage */
	uint32_t layer; /* enum layer */
	int32_t error; /* errno */
	int32_t value;
	/* How far each layer holds: above 0 it was applied (LAYER_LANDLOCK: which ABI), below
	 * it is absent, a negative errno; 0 is no part of this chamber.  Whole in
	 * STAGE_LISTENER. */
	int16_t layers[LAYER_MAX];
};

/*
 * From init, on its own pipe: the runtime's waitid, for kernels without PIDFD_GET_INFO; and the
 * processor time of the process alone, by the clock that RLIMIT_CPU goes by.
 */
struct launch_status {
	int32_t code; /* CLD_* */
	int32_t status;
	uint64_t limited_us; /* 0: unknown */
};

#endif /* WORKER_PLAN_H */
