/*
 * quota: how much a tree of files may hold, bounded by a project quota of its file system.
 *
 * A directory is given a project id, which whatever is made beneath it inherits; the kernel
 * counts what has the id.  Nobody in a user namespace can change one.  Ids are of a range of
 * ours, on every file system, and what is counted is the only record of which are taken: an id
 * that nothing has is free, whoever was killed.  Needs root, outside of user namespaces.
 */
#ifndef SUPERVISOR_QUOTA_H
#define SUPERVISOR_QUOTA_H

#include <stdint.h>

#define QUOTA_PROJECT_FIRST 0x40000000u
#define QUOTA_PROJECT_COUNT 0x01000000u
#define QUOTA_PROJECT_NONE  0u

/* Files cost no bytes that are counted: there is one for so many, and some besides. */
#define QUOTA_BYTES_PER_FILE 4096u
#define QUOTA_FILES_MIN	     1024u

/*
 * Does the file system that `fd` lies on enforce project quotas, and may we set them?  0;
 * -EPERM: not as this user; -EOPNOTSUPP: it has none; -ESRCH: it has some, which bound nothing.
 */
int quota_probe(int fd);
/* What to do about such an error. */
const char *quota_remedy(int error);

/*
 * Gives what `fd` is open on, which has no project yet and nothing beneath it, one that nothing
 * else has, of `bytes` at most.  `seed`: any number, another one for another tree.  Returns 0
 * and the id; -EAGAIN: none is free; or another negative errno, with which it may have an id
 * that bounds nothing: remove it.
 */
int quota_claim(int fd, uint64_t seed, uint64_t bytes, uint32_t *ret_project);

/* The project of ours that it has, or QUOTA_PROJECT_NONE. */
uint32_t quota_project(int fd);

/* Bounds what has `project`, on the file system of `fd`; 0: no more.  0 or a negative errno. */
int quota_bound(int fd, uint32_t project, uint64_t bytes);

#endif /* SUPERVISOR_QUOTA_H */
