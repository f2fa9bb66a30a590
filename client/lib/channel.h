/*
 * channel: bytes to a daemon or gateway and back, over a UNIX or TCP socket, with or without
 * TLS.
 *
 * Owns the descriptor, the TLS state and a queue in each direction.  Nothing in it waits but
 * channel_open() and channel_wait(); nothing in it knows what the bytes mean.
 */
#ifndef CLIENT_LIB_CHANNEL_H
#define CLIENT_LIB_CHANNEL_H

#include <openssl/ssl.h>

#include "client/lib/libcaisson.h"
#include "common/protocol.h"

enum target_kind {
	TARGET_LOCAL, /* a daemon's own socket: links */
	TARGET_UNIX, /* a gateway's: HTTP */
	TARGET_TCP,
};

struct target {
	enum target_kind kind;
	bool tls;
	char *path; /* of a socket */
	char *host, *port; /* of TARGET_TCP; the host without brackets */
	char *authority; /* for the Host header */
};

struct channel {
	int fd;
	SSL *ssl; /* NULL: none */
	bool connected; /* with TLS: the handshake is over */
	bool ended; /* the other end will send no more */
	bool wants_write; /* TLS must write before it can read */
	struct buf in, out;
	size_t in_done, out_done; /* of them, consumed, and written */
};

/* 0; -1 with "usage". */
int target_parse(const char *text, struct target *ret, struct caisson_error *error);
void target_finish(struct target *t);

/* Connects, and shakes hands, until `at_ms` at most.  NULL on failure: "transport". */
struct channel *channel_open(const struct target *t, SSL_CTX *tls, uint64_t at_ms,
    struct caisson_error *error);
void channel_close(struct channel *ch);

/* What it wants poll(2) to look for. */
short channel_poll(const struct channel *ch);
/* Reads and writes what goes without waiting.  0, also at the other's end, which is in
 * `ended`; -1: "transport". */
int channel_step(struct channel *ch, struct caisson_error *error);
/* Only writes. */
int channel_step_write(struct channel *ch, struct caisson_error *error);
/* TLS holds bytes that have come already: there is something to step whatever poll(2) says. */
bool channel_is_pending(const struct channel *ch);
/* As poll(2) for one descriptor, until `at_ms`, 0: for ever.  1; 0: the time is over; -1. */
int channel_wait_for(int fd, short events, uint64_t at_ms, struct caisson_error *error);
/* Waits until there is something to step, at most until `at_ms` (0: for ever).  1; 0: the time
 * is over; -1. */
int channel_wait(struct channel *ch, uint64_t at_ms, struct caisson_error *error);
/* What has come and is not consumed, and its consumption. */
struct slice channel_input(const struct channel *ch);
void channel_consume(struct channel *ch, size_t n);

/* Fills `error`; returns -1. */
int error_set(struct caisson_error *error, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* CLIENT_LIB_CHANNEL_H */
