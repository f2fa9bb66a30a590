/*
 * listener: the seccomp listener of one chamber.
 *
 * Of a notification only number and architecture are looked at: the arguments are the
 * program's, which may change them meanwhile.  Nothing is answered, so that whoever made the
 * call waits in it until the owner ends the chamber; if the owner dies, the kernel
 * fails the call with ENOSYS.  Only a `struct learn` (`caisson learn`) answers.
 * Single-threaded, on one event_base.
 */
#ifndef SUPERVISOR_LISTENER_H
#define SUPERVISOR_LISTENER_H

#include <stdint.h>

struct event_base;
struct learn;
struct listener;

/* A call that is on no list and that nobody answered, once for each thread that makes one. */
typedef void listener_call_fn(uint32_t nr, uint32_t arch, void *arg);

/*
 * The descriptor that is number `number` in the process of `pidfd`, close-on-exec; the
 * caller's.  Or a negative errno: EBADF, EPERM, ESRCH, EMFILE.
 */
int listener_fetch(int pidfd, int number);

/*
 * Watches `fd`, which it takes.  `learn`, borrowed, has the first word; NULL: nobody answers.
 * A target that is gone before its notification was read is no news; when nobody is left under
 * the filter, watching ends.  `on_call` must not close the listener.  Returns 0 or -ENOMEM.
 */
int listener_open(struct event_base *base, int fd, struct learn *learn,
    listener_call_fn *on_call, void *arg, struct listener **ret);
/* Accepts NULL. */
void listener_close(struct listener *l);

#endif /* SUPERVISOR_LISTENER_H */
