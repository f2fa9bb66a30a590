/*
 * uid: as root, a uid and gid for each chamber, claimed for the whole machine.
 *
 * A claim is a lock on /run/caisson/uid/<n>, which ends with whoever holds the
 * descriptor, so that a killed supervisor leaves none behind.  The files stay.
 */
#ifndef SUPERVISOR_UID_H
#define SUPERVISOR_UID_H

#include <stdbool.h>
#include <sys/types.h>

struct uid_range {
	uid_t first;
	unsigned count;
};

struct uid_claim {
	uid_t uid; /* also the gid */
	int lock_fd;
};

#define UID_CLAIM_NONE ((struct uid_claim){ .lock_fd = -1 })

/* True if this process can give its children uids: root, and not alone in a user namespace. */
bool uid_is_root(void);

/*
 * Claims the lowest free uid of `range`.  Returns 0; -EAGAIN if all are taken; -EINVAL for
 * a range that is empty, contains 0 or wraps; another negative errno of the directory.
 */
int uid_claim(const struct uid_range *range, struct uid_claim *ret);

/* The same under `dir`, for tests. */
int uid_claim_in(const char *dir, const struct uid_range *range, struct uid_claim *ret);

/* Gives the uid back; nothing may run under it any more.  Accepts UID_CLAIM_NONE. */
void uid_release(struct uid_claim *claim);

#endif /* SUPERVISOR_UID_H */
