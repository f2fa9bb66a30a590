/*
 * rlimit: of one's own process.
 */
#ifndef COMMON_RLIMIT_H
#define COMMON_RLIMIT_H

/*
 * As many descriptors as the hard limit has, more than the soft one of a login shell.  It also
 * bounds what of the user's descriptors may be under way in sockets when we send one: a chamber
 * without root, which is the same user's, can keep as many there as its own limit is.
 * What cannot be raised stays.
 */
void rlimit_raise_descriptors(void);

#endif /* COMMON_RLIMIT_H */
