/*
 * empty: removes what is in a directory, whatever it is.
 *
 * Untrusted programs wrote it: trees deeper than any path, names of any bytes, directories
 * without any permission.  No link is followed, and two descriptors do for any depth: what is
 * two levels down is moved up first.
 */
#ifndef WORKER_FILES_EMPTY_H
#define WORKER_FILES_EMPTY_H

/*
 * Removes everything in the directory `dir`, which our uid owns as all that is in it.  Returns
 * 0 when it is empty; or negative errno, the first reason for which something stays: the rest
 * is gone.
 */
int empty_directory(int dir);

#endif /* WORKER_FILES_EMPTY_H */
