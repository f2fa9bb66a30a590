/*
 * notify: telling whoever started a daemon how it is: sd_notify(3), a descriptor, and the
 * parent that waits until it may leave.
 */
#ifndef SUPERVISOR_NOTIFY_H
#define SUPERVISOR_NOTIFY_H

#include <stdint.h>

/*
 * Sends `state` ("READY=1") to $NOTIFY_SOCKET, if there is one.  Returns 1 if it was sent, 0
 * without such a socket, or a negative errno.
 */
int notify_send(const char *state);
/* ms between two WATCHDOG=1 that $WATCHDOG_USEC (for us) asks for: half of it; 0: none. */
uint64_t notify_watchdog_ms(void);

/*
 * Goes into the background: returns in the child, which leads a session of its own, with the
 * descriptor that notify_ready() takes; or a negative errno.  The parent waits, and exits 0 at
 * notify_ready(), or as the child does before.
 */
int notify_daemonize(void);

/* Writes a newline to `fd` and closes it.  Accepts -1. */
void notify_ready(int fd);

#endif /* SUPERVISOR_NOTIFY_H */
