/*
 * link: a connected AF_UNIX stream socket that carries frames of protocol.def.
 *
 * Owns its descriptor, both buffers and the list of requests it waits for.  libevent
 * says when the socket is ready; reading and writing are ours: one read as large as
 * there is (at most LINK_READ_MAX a loop turn), one gathered write per loop turn.
 * Nothing is written from within link_request() and its kin: frames queue, and leave
 * when the loop comes round.  A peer that closes its end is read to the last whole frame
 * before the link ends.  Descriptors are never received: the socket is read with read(2),
 * which discards them.  It is written with write(2), so who opens one ignores SIGPIPE: a
 * filter need not look at the arguments of a call that every message makes.
 *
 * The handler may call anything on the link, including link_close(); the link is freed
 * only after the handler has returned.
 */
#ifndef COMMON_LINK_H
#define COMMON_LINK_H

#include <sys/types.h>

#include "common/protocol.h"

struct event_base;
struct link;

/* Why a link ended. */
enum link_end {
	LINK_END_EOF, /* the peer closed (or ECONNRESET); complete frames came first */
	LINK_END_FAULT, /* the peer broke the protocol: `fault` says how */
	LINK_END_SLOW, /* LINK_QUEUE_MAX bytes lie unread */
	LINK_END_ERROR, /* the system: `error` is an errno */
	LINK_END_CLOSED, /* link_close() on our side */
};

struct link_handler {
	/* One valid message.  Slices live until the handler returns. */
	void (*on_message)(struct link *l, const struct message *m, void *arg);
	/* The last call for this link; it is freed when this returns. */
	void (*on_end)(
	    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg);
	/* The out-queue has fallen below the mark given to link_watch(); may be NULL. */
	void (*on_drained)(struct link *l, void *arg);
	/* A request of the peer's was refused by link_refuse(); may be NULL. */
	void (*on_refused)(struct link *l, const char *code, void *arg);
};

/*
 * Takes ownership of `fd` (also on failure), makes it non-blocking.  `self` and `peer`
 * are the roles at its two ends.  The link starts in LINK_NEW; hello is answered by the
 * link itself (a wrong version is a fault), after which it is LINK_READY and on_message is
 * told of the hello, with nothing left to do for it; the side that sends hello calls
 * link_hello().  Returns NULL with errno set.
 */
struct link *link_open(struct event_base *base, int fd, enum role self, enum role peer,
    const struct link_handler *handler, void *arg);

/* Ends the link; on_end(LINK_END_CLOSED) is called once, from the loop.  What is queued
 * is written as far as the socket takes it without waiting.  NULL is allowed. */
void link_close(struct link *l);
/* Like link_close(), once the queue is empty or `timeout_ms` have passed.  Nothing more is
 * read or queued meanwhile. */
void link_close_drained(struct link *l, int timeout_ms);
/* Treats what the peer did as a fault: for rules that only the caller can check. */
void link_fault(struct link *l, const char *rule);

/* Sends hello; with its reply the link is LINK_READY, and on_message gets the reply
 * (MSG_hello_reply).  `name` may be NULL. */
int link_hello(struct link *l, const char *name);

/* Queue one frame.  Return 0; -ERANGE, -ENOMEM as protocol_request(); -EPIPE if the link
 * is ending.  A queue over LINK_QUEUE_MAX ends the link (LINK_END_SLOW). */
int link_request(struct link *l, enum msg_type type, const void *m, uint32_t *ret_msgid);
int link_notify(struct link *l, enum msg_type type, const void *m);
int link_reply(struct link *l, enum msg_type type, uint32_t msgid, const void *m);
int link_refuse(
    struct link *l, uint32_t msgid, const char *code, const char *message, bool retryable);

/* READY <-> BUSY, by the owner; also NEW -> READY between broker and ledger, which say no
 * hello. */
void link_set_state(struct link *l, enum link_state state);
enum link_state link_get_state(const struct link *l);

/* Stops and resumes reading; frames already read are held back too. */
void link_pause(struct link *l);
void link_resume(struct link *l);

/* How often its socket was full, and its peer has read then. */
uint64_t link_reads(const struct link *l);
/* Bytes queued and not yet written. */
size_t link_queued(const struct link *l);
/* Calls on_drained once when link_queued() is at or below `bytes` (now, or later). */
void link_watch(struct link *l, size_t bytes);

/* What is done to the descriptor; for tests, which replace it by a plan (short, failing). */
struct link_io {
	ssize_t (*read)(int fd, void *p, size_t n);
	ssize_t (*write)(int fd, const void *p, size_t n);
};
void link_set_io(struct link *l, const struct link_io *io);

#endif /* COMMON_LINK_H */
