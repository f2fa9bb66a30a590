/*
 * confine: the files provider's own system call filter, beneath that of its chamber.
 */
#ifndef WORKER_FILES_CONFINE_H
#define WORKER_FILES_CONFINE_H

/*
 * Gives up everything that syscalls.def does not name, for good, and any way to new
 * privileges.  Returns 0, or negative errno; after a failure nothing may be served.
 */
int files_confine(void);

#endif /* WORKER_FILES_CONFINE_H */
