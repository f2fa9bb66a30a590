/*
 * cgroup: limits that only a control group enforces, and counters that only one keeps.
 *
 * One interface, three implementations, chosen once per supervisor:
 *
 *   v2    memory, pids, cpu, their counters, and cgroup.kill, beneath a directory that is
 *         delegated to us: as root or not.  The chamber is born in its group.
 *   v1    memory, pids, cpu, by hierarchy; with a bare v2 beside it (systemd's hybrid) also
 *         cgroup.kill and the processor time of the tree.
 *   none  nothing.  Memory and processes are then bounded by rlimits, without evidence; a share
 *         of the processor is refused.
 *
 * Groups are made beneath the group that the supervisor itself is in, or the nearest above it
 * that has what is needed, so that its own limits hold for its chambers, too.  Their
 * directories are locked by their supervisor; what a killed one left is removed by
 * the next.  Reads files of the kernel only.  Single-threaded.
 */
#ifndef SUPERVISOR_CGROUP_H
#define SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup;
struct cgroup_host;
struct event_base;

enum cgroup_backend { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

/* What a backend can do: bits. */
enum cgroup_ability {
	CGROUP_MEMORY = 1u << 0,
	CGROUP_PIDS = 1u << 1,
	CGROUP_CPU = 1u << 2,
	CGROUP_IO = 1u << 3, /* it counts what is read and written */
	CGROUP_KILL = 1u << 4,
};

/* For status output; valid as long as its host. */
struct cgroup_status {
	enum cgroup_backend backend;
	unsigned abilities; /* enum cgroup_ability */
	const char *base;   /* where v2 groups are made; "" for none */
	const char
	    *advice; /* one line: why not more, and what to do about it; "" for nothing */
};

/*
 * Looks at the hierarchies below `root` ("/sys/fs/cgroup") as the process of the file `self`
 * ("/proc/self/cgroup"), and removes what killed supervisors left there.  Where v2 groups can
 * only be made beneath our own one, moves this process into a group of its own there.
 * Returns 0 or -ENOMEM; a machine without cgroups is CGROUP_NONE.
 */
int cgroup_host_open(const char *root, const char *self, struct cgroup_host **ret);
/* Undoes that.  What is still busy is left to the next supervisor.  Accepts NULL. */
void cgroup_host_close(struct cgroup_host *h);

/* The one of this process, looked at on first use; NULL without memory. */
struct cgroup_host *cgroup_host(void);
/* Closes it: before the loop of its groups goes. */
void cgroup_host_finish(void);

const struct cgroup_status *cgroup_host_status(const struct cgroup_host *h);
/* "v2", "v1", "none". */
const char *cgroup_backend_name(enum cgroup_backend backend);

/* 0: none. */
struct cgroup_limits {
	uint64_t memory_bytes, pids, cpu_percent;
	/* enum cgroup_ability: what somebody asked for.  The rest are defaults, for which v1
	 * makes no group: entering one costs it 20 ms. */
	unsigned asked;
};

/* Which of the limits a group would enforce: enum cgroup_ability. */
unsigned cgroup_bounds(const struct cgroup_host *h, const struct cgroup_limits *limits);

/*
 * What such a group is made of, for cgroup_make(), in `*ret`; 0: none is needed, or can be had.
 * Returns 0; -ENOTSUP if nothing on this machine enforces a share of the processor.
 */
int cgroup_kind(
    const struct cgroup_host *h, const struct cgroup_limits *limits, unsigned *ret);

/* Makes a group of that kind, which may be entered and limits nothing yet; NULL for kind 0.
 * 0 or a negative errno. */
int cgroup_make(
    struct cgroup_host *h, struct event_base *base, unsigned kind, struct cgroup **ret);

/* Applies limits of its kind to it.  Accepts NULL.  0 or a negative errno. */
int cgroup_limit(struct cgroup *g, const struct cgroup_limits *limits);

/* All of it.  Returns 0 and the group, or NULL where none is needed or can be had; errors as of
 * the three. */
int cgroup_create(struct cgroup_host *h, struct event_base *base,
    const struct cgroup_limits *limits, struct cgroup **ret);

/*
 * Removes it; every process of ours in it must be reaped.  One that is busy all the same is
 * tried again when the kernel says that it is empty, and with every later group.  Accepts NULL.
 */
void cgroup_destroy(struct cgroup *g);

/* How to enter; borrowed from the group, all zero for NULL. */
struct cgroup_entry {
	const char *const *procs; /* cgroup.procs files to join, NULL-terminated; or NULL */
	const char *into;	  /* directory for CLONE_INTO_CGROUP; or NULL */
	unsigned bounds;	  /* enum cgroup_ability: limits that it enforces */
};
struct cgroup_entry cgroup_entry(const struct cgroup *g);

/* Kills everything in it, if it can.  Accepts NULL. */
void cgroup_kill(const struct cgroup *g);

#define CGROUP_UNTOLD UINT64_MAX

/* What the kernel counted since the group was made; CGROUP_UNTOLD where it did not. */
struct cgroup_usage {
	enum cgroup_backend backend;	/* who did */
	uint64_t oom_kills;		/* processes killed for the group's memory */
	uint64_t pids_refused;		/* forks refused for its limit */
	uint64_t peak_bytes, processes; /* at once */
	uint64_t cpu_us, read_bytes, written_bytes;
};
/* For NULL nothing is told. */
void cgroup_usage(const struct cgroup *g, struct cgroup_usage *ret);

#endif /* SUPERVISOR_CGROUP_H */
