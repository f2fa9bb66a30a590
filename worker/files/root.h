/*
 * root: the served directory, and the only way to what lies beneath it.
 *
 * Owns one O_PATH descriptor, opened once.  Everything is reached from it by openat2,
 * which follows no link of any kind and leaves the directory by no name, and is checked on
 * the descriptor that came back: a path is looked up once and never again.  Directories of
 * the kernel's own file systems (/proc, /sys, ...) are refused wherever they are mounted.
 *
 * A directory that somebody outside moves out of the root while a call holds it stays
 * the call's directory: whoever can do that has the right to both places.
 */
#ifndef WORKER_FILES_ROOT_H
#define WORKER_FILES_ROOT_H

#include <sys/stat.h>
#include <sys/types.h>

#include "worker/files/segments.h"

struct files_root {
	int fd;
	uid_t uid; /* owner of the root: the owner of everything written */
	gid_t gid;
	bool chown; /* we are another, and may give files away */
	bool named_temps; /* learned: no unnamed files can be linked here */
};

/* Opens the directory `path`.  Returns 0, or negative errno: -ENOSYS without openat2. */
int files_root_open(const char *path, struct files_root *ret);
/* Zeroed or closed roots are allowed. */
void files_root_close(struct files_root *r);

/*
 * Opens the directory that the first `n` names lead to, with `flags` (O_PATH or O_RDONLY)
 * added to O_DIRECTORY.  Returns a descriptor, or negative errno: -ELOOP for a symbolic
 * link on the way, -EPERM for a file system of the kernel's.
 */
int files_root_dir(const struct files_root *r, const struct segments *s, size_t n, int flags);

/* Opens one name in `dir`, which no link can redirect.  Returns a descriptor, or negative
 * errno. */
int files_root_openat(int dir, const char *name, int flags, mode_t mode);

/* The last name of `s`, which has one, NUL-terminated in `out`. */
void files_root_leaf(const struct segments *s, char out[SEGMENT_BYTES_MAX + 1]);

/*
 * Opens the regular file that `s` names for reading; nothing else is ever opened, so that
 * a FIFO wakes nobody and a device does nothing.  Returns a descriptor and fills `ret`; or
 * negative errno: -EISDIR, -ELOOP, -ENXIO for what is none of these.
 */
int files_root_file(const struct files_root *r, const struct segments *s, struct stat *ret);
/* The same of a name in `dir`. */
int files_root_file_at(int dir, const char *leaf, struct stat *ret);

/* What was made belongs to the owner of the root.  Returns 0, or negative errno. */
int files_root_give(const struct files_root *r, int fd);

/* What may be acted on: 0 for a regular file; -EISDIR, -ELOOP, -ENXIO. */
int files_root_check(const struct stat *st);

/* "file", "directory", "symlink" or "other". */
const char *files_root_type(mode_t mode);

#endif /* WORKER_FILES_ROOT_H */
