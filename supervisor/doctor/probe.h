/*
 * doctor_probe: what the probes of doctor.def are made with, and the probes themselves.
 *
 * A probe runs in a child of its own, in a process group of its own, and may do to itself
 * what it likes.  It answers through the finding alone.
 */
#ifndef SUPERVISOR_DOCTOR_PROBE_H
#define SUPERVISOR_DOCTOR_PROBE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/doctor/doctor.h"

#define GROUP(name)
#define PROBE(id, need, after, title, purpose, remedy)                                         \
	void probe_##id(struct doctor_finding *f);
#define REMEDY(id, error, remedy)
#include "supervisor/doctor/doctor.def"

/* The directory that the rows of the group `state` look at; NULL: none is known. */
extern const char *probe_state_dir;

void probe_yes(struct doctor_finding *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* `error`: an errno, or 0 where the kernel did not refuse but did not hold either. */
void probe_no(struct doctor_finding *f, int error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Does not concern this user. */
void probe_unasked(struct doctor_finding *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Where the settings of the kernel are: "/proc/sys".  For tests. */
extern const char *probe_settings;

/* First line of a file, without its end; -errno if it cannot be read. */
int probe_read(const char *path, char *buf, size_t cap);
/* The number that a setting ("kernel/x") has; `none` if it is not there. */
long probe_setting(const char *name, long none);

/* The part of `path` that is there already. */
void probe_existing(const char *path, char ret[PATH_MAX]);

/* Where a namespace is refused to a user: what the machine's own settings say about it. */
void probe_advise(struct doctor_finding *f);

/* fork(), with a child that does not outlive the probe.  Reap it with probe_wait(). */
pid_t probe_fork(void);
/* Waits for a child of the probe's; returns its status as waitpid() has it, -1 for none. */
int probe_wait(pid_t pid);

/*
 * Runs `fn` in a child made with clone3 as a chamber's pid 1 is: a user namespace, `flags`,
 * one uid and gid mapped.  If the child cannot be made the finding says so.
 */
void probe_chamber(
    struct doctor_finding *f, uint64_t flags, void (*fn)(struct doctor_finding *f));

#endif /* SUPERVISOR_DOCTOR_PROBE_H */
