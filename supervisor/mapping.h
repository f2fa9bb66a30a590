/*
 * mapping: which uids a user namespace, or a mount, stands for.
 *
 * As root what a chamber writes belongs to the owner of the directory, by a mount whose ids are
 * mapped; that is a matter of the file system and of the kernel (tmpfs: Linux 6.3).  Tried
 * rather than told by version.
 */
#ifndef SUPERVISOR_MAPPING_H
#define SUPERVISOR_MAPPING_H

#include <sys/types.h>

/* Gives a process in a new user namespace its one uid and gid as the launcher does: as root the
 * first of the range of chambers, else our own.  0 or a negative errno. */
int mapping_write(pid_t pid);

/*
 * Can the directory `dir_fd` (or AT_FDCWD) be mounted with other ids?  0; -EINVAL: its file
 * system cannot; another negative errno: this could not be tried.  Needs root; mounts nothing.
 */
int mapping_probe(int dir_fd);

#endif /* SUPERVISOR_MAPPING_H */
