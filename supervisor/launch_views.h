/*
 * launch_views: what several mounts of one chamber show of the same files of the host.
 *
 * Each mount for itself keeps its promise: what it shows read-only is not written through it,
 * what it shows writable is not executed through it.  Here they are put in an order, and given
 * rights, in which they keep it together.  Sources are compared by name, which is enough where
 * no link is followed on the way to one.  Owns the strings of the views that it adds.
 */
#ifndef SUPERVISOR_LAUNCH_VIEWS_H
#define SUPERVISOR_LAUNCH_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#define VIEWS_MAX 512u

struct view {
	const char *source, *target;
	bool writable, executable;
	bool idmap;
	bool standing; /* of the system: there before the others, and not to be mounted again */
	bool ours;     /* that, and our own programs: they may lie where somebody works on them */
	const char *whole; /* the source that it is a part of, whose owner it must have, or NULL */
	char *made, *made_source; /* `target` and `source`, where they are ours */
};

struct views {
	struct view v[VIEWS_MAX];
	size_t n;
	size_t fault; /* of what views_settle() refused, the writable one; or SIZE_MAX */
};

/* Adds one, whose strings are borrowed.  -E2BIG if there are too many. */
int views_add(struct views *s, const struct view *view);

/*
 * Puts who stands in another's directory behind it, and
 * - where a writable directory lies in one from which programs start, shows it there once more,
 *   without that right;
 * - takes that right from what lies in a writable directory and can be written there;
 * - where that is our own programs, shows them there once more, read-only;
 * - where something read-only lies deep in a writable directory, shows each directory between
 *   once more, as a mount of its own, so that none can be moved away with what is below.
 *
 * -EACCES: what else is standing could be written.  -E2BIG: too many, or a path too long.  -ENOMEM.
 */
int views_settle(struct views *s);

/* Frees what views_settle() added. */
void views_finish(struct views *s);

/* What of `path` is below `above` (any number of slashes), "" if it is that; NULL: it is not. */
const char *views_below(const char *path, const char *above);

#endif /* SUPERVISOR_LAUNCH_VIEWS_H */
