/*
 * sink: bytes to one of the client's own standard streams, without ever blocking the loop.
 *
 * The stream's description is shared with whoever started us, so its flags stay as they
 * are: pipes and terminals are opened once more through /proc with flags of our own,
 * sockets are written with MSG_DONTWAIT, and where neither goes a write waits for
 * readiness and is small.  Regular files are written at once.  What does not go out is
 * queued; the caller stops its source while sink_queued() is over SINK_HIGH.
 */
#ifndef CLIENT_SINK_H
#define CLIENT_SINK_H

#include <stdbool.h>
#include <stddef.h>

#define SINK_HIGH (1u << 20)   /* bytes queued at which a source must stop */
#define SINK_LOW  (256u << 10) /* bytes queued at which it may go on */

struct event_base;
struct sink;

/* Called from the loop: the queue has fallen to SINK_LOW or below, or the sink has failed. */
typedef void sink_fn(struct sink *s, void *arg);

/* `fd` stays the caller's and open.  The base must be able to watch files (poll).  Returns
 * NULL with errno set. */
struct sink *sink_create(struct event_base *base, int fd, sink_fn *on_progress, void *arg);
/* What is queued is lost. */
void sink_destroy(struct sink *s);

/* Writes or queues.  After a failure everything is dropped. */
void sink_write(struct sink *s, const void *p, size_t n);
size_t sink_queued(const struct sink *s);
/* 0, or the errno (EPIPE: nobody reads any more) after which nothing is written. */
int sink_error(const struct sink *s);

#endif /* CLIENT_SINK_H */
