/*
 * target: a name in a directory that a call changes.
 *
 * The directory is a descriptor, found beneath the root once, and everything is done to
 * the name in it.  What stands behind the name is looked at before it is changed; where
 * somebody else changes it between the two, the change falls on what stands there then: a
 * name of the same directory still, and never what a link points to.
 */
#ifndef WORKER_FILES_TARGET_H
#define WORKER_FILES_TARGET_H

#include <sys/stat.h>

#include "worker/files/files.h"

#define TARGET_TEMP_MAX (sizeof(TEMP_PREFIX) + 16 + sizeof(TEMP_SUFFIX))

struct target {
	int dir; /* -1, or to be closed by its owner */
	char leaf[SEGMENT_BYTES_MAX + 1];
	bool exists; /* when it was looked at */
	struct stat old; /* with exists */
	bool expected; /* `old` is what the caller expected */
};

/*
 * Opens the directory of `s`, which is not the root, for the last name of `s`.  Returns 0
 * and sets `dir` and `leaf`; or negative errno.
 */
int target_open(const struct files_root *root, const struct segments *s, struct target *t);

/* Looks at what has the name: nothing is no error.  Returns 0; -ELOOP or -ENXIO for what is
 * neither a file nor a directory; another negative errno. */
int target_look(struct target *t);

/*
 * Is its content the one whose SHA-256 is `expect`?  From here on `old` is that file, and
 * until `dir` is closed conditional changes in this directory exclude each other, whichever
 * providers serve them.  Never waits: a reader of the directory can hold this lock too, and
 * gets no more out of it than refusals.  Where there are no locks, what remains is
 * target_is_changed().  Fails with the field that is wrong.
 */
enum files_code target_expect(struct target *t, struct slice expect, struct files_reply *reply);

/* Has somebody who asks no provider come since target_expect()?  Without it: no. */
bool target_is_changed(const struct target *t);

/*
 * Gives `from`, a name of the same directory, the name of the target; with `replace` in
 * the place of what has it.  Returns 0; -EEXIST; another negative errno.
 */
int target_take(const struct target *t, const char *from, bool replace);

/* A new name for an unfinished file of ours. */
void target_temp(char name[TARGET_TEMP_MAX]);

/* Makes what was done to the directory durable.  Returns 0, or negative errno. */
int target_sync(const struct target *t);

#endif /* WORKER_FILES_TARGET_H */
