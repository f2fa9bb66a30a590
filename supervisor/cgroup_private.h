/*
 * cgroup_private: what the files of cgroup share.
 */
#ifndef SUPERVISOR_CGROUP_PRIVATE_H
#define SUPERVISOR_CGROUP_PRIVATE_H

#include <sys/queue.h>

#include "supervisor/cgroup.h"

#define CGROUP_PERIOD_US 100000u

/* Directories of one group: v1 has one per controller, v2 one. */
enum cgroup_part { PART_MEMORY, PART_PIDS, PART_CPU, PART_UNIFIED, CGROUP_PARTS };

enum cgroup_counter {
	COUNTER_OOM,
	COUNTER_PIDS,
	COUNTER_PEAK,
	COUNTER_PROCESSES,
	COUNTER_CPU,
	COUNTER_IO,
	CGROUP_COUNTERS
};

/* A directory of ours, locked: its supervisor lives. */
struct cgroup_dir {
	char *path; /* NULL: none */
	int fd;
};

struct cgroup_host {
	struct cgroup_status status;
	char *bases[CGROUP_PARTS];  /* beneath which groups are made; NULL: not here */
	char *own;		    /* v2: where we were, if we moved */
	struct cgroup_dir leaf;	    /* v2: where we moved to */
	TAILQ_HEAD(, cgroup) stuck; /* destroyed, and still busy */
};

struct cgroup {
	struct cgroup_host *host;
	struct event_base *base;
	struct cgroup_dir dirs[CGROUP_PARTS];
	char *procs_path[CGROUP_PARTS];
	const char *procs[CGROUP_PARTS + 1];
	unsigned bounds;
	/* Open from the beginning, to be read whatever happens to the directory. */
	int counters[CGROUP_COUNTERS];
	int inotify_fd; /* when stuck: tells when it is empty */
	struct event *on_empty;
	TAILQ_ENTRY(cgroup) link; /* host.stuck */
};

/* One limit: what is written where. */
struct cgroup_setting {
	enum cgroup_part part;
	const char *name;
	char value[48];
	bool optional; /* some kernels do not have the file */
};

/* ---- cgroup_dir.c ---- */

/* Makes and locks a directory beneath `base` under a name that nobody else uses.  0 or a
 * negative errno. */
int cgroup_dir_make(const char *base, struct cgroup_dir *ret);
/* Removes and forgets it.  Returns 0 if it is gone, or -EBUSY or
 * another negative errno, and then keeps it. */
int cgroup_dir_remove(struct cgroup_dir *d);
/* Lets it stand, unlocked. */
void cgroup_dir_forget(struct cgroup_dir *d);
/* Removes what is empty, of ours, and locked by nobody. */
void cgroup_dir_sweep(const char *base);
/* Writes `text` to a file in it.  0 or a negative errno. */
int cgroup_dir_write(int dir_fd, const char *name, const char *text);

/* May we make groups in `dir`? */
bool cgroup_is_writable(const char *dir);
/* Does the file `dir`/`name` have `word` in it? */
bool cgroup_has_word(const char *dir, const char *name, const char *word);
/* The group of `self` in the hierarchy of `controller` ("" is v2), as its own path: the
 * caller's; NULL if there is none. */
char *cgroup_path_of(const char *self, const char *controller);
/* Makes part `part` of `g` and applies the settings that name it; opens counter files. */
int cgroup_part_make(struct cgroup *g, enum cgroup_part part);
int cgroup_settings_apply(struct cgroup *g, const struct cgroup_setting *s, size_t n);
void cgroup_counter_open(
    struct cgroup *g, enum cgroup_counter c, enum cgroup_part part, const char *name);

/* ---- the backends: look fills host.bases and host.status, make a group; limit applies what
 * stands in its `bounds` ---- */

void cgroup_v1_look(struct cgroup_host *h, const char *root, const char *self);
int cgroup_v1_make(struct cgroup *g, unsigned kind);
int cgroup_v1_limit(struct cgroup *g, const struct cgroup_limits *limits);
void cgroup_v2_look(struct cgroup_host *h, const char *root, const char *self);
int cgroup_v2_make(struct cgroup *g);
int cgroup_v2_limit(struct cgroup *g, const struct cgroup_limits *limits);
/* v2: leaves the group that looking may have moved us to. */
void cgroup_v2_leave(struct cgroup_host *h);

#endif /* SUPERVISOR_CGROUP_PRIVATE_H */
