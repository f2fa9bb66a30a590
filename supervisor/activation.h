/*
 * activation: listening sockets that systemd opened for us, sd_listen_fds(3).
 *
 * LISTEN_FDS of them stand from descriptor 3 on, if LISTEN_PID is ours, and LISTEN_FDNAMES
 * calls them public, monitor (the gateway's) or local (the daemon's own).  Owns those that
 * nobody has taken.  Never logs.
 */
#ifndef SUPERVISOR_ACTIVATION_H
#define SUPERVISOR_ACTIVATION_H

#include <sys/socket.h>

#define ACTIVATION_FIRST     3
#define ACTIVATION_MAX	     32
#define ACTIVATION_ERROR_MAX 512

struct activation {
	struct {
		int fd; /* -1: taken */
		char name[16];
	} v[ACTIVATION_MAX];
	unsigned n;
};

/*
 * Takes what the environment says, from `first` (ACTIVATION_FIRST) on, and takes that out of
 * it, so that no child reads it.
 * Returns 0, also if there is nothing for us; or -EINVAL, -EBADF with one line in `err`: a name
 * that is none of these, a descriptor that is no listening stream socket of this kind.
 */
int activation_read(int first, struct activation *ret, char err[ACTIVATION_ERROR_MAX]);

/*
 * Takes the one called `name` that listens at `address`; where the port in it is 0, at any.
 * NULL: whatever its address.  Returns its descriptor, or -ENOENT.
 */
int activation_take(struct activation *a, const char *name,
    const struct sockaddr_storage *address, socklen_t size);

/* Is everything taken?  Else -EINVAL with one line in `err` about the first that is not. */
int activation_check(const struct activation *a, char err[ACTIVATION_ERROR_MAX]);

void activation_finish(struct activation *a);

#endif /* SUPERVISOR_ACTIVATION_H */
