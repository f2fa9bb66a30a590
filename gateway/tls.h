/*
 * tls: TLS 1.2 and 1.3 on the server's side, over OpenSSL.
 *
 * No resumption, renegotiation, compression or early data: a connection's keys are its own. 
 * The name that a client asks for (SNI) is not looked at: a listener has one certificate.  A
 * client's certificate is asked for without naming an authority, and any is taken: TLS proves
 * that the client holds its key, and who that is, the broker knows by its digest.
 */
#ifndef GATEWAY_TLS_H
#define GATEWAY_TLS_H

#include "common/protocol.h"

struct ssl_ctx_st;
struct ssl_st;

/* Once, before anything else here, and before the process confines itself: nothing here opens a
 * file after it. */
void tls_init(void);

/*
 * Of a chain and a key, both PEM, of which no copy but OpenSSL's own is kept.  `ask`: clients
 * for their certificates.  NULL with `*ret_why` set: static text.
 */
struct ssl_ctx_st *tls_create(
    struct slice certificate, struct slice key, bool ask, const char **ret_why);
void tls_destroy(struct ssl_ctx_st *tls); /* its connections live on; NULL is allowed */

/* A connection's: its descriptor stays the caller's.  NULL if memory is out. */
struct ssl_st *tls_open(struct ssl_ctx_st *tls, int fd);
void tls_close(struct ssl_st *s); /* no I/O; NULL is allowed */

/*
 * As read(2) and write(2), the handshake included; nothing waits.  Return the number of bytes;
 * 0 at the end (tls_read); -EAGAIN, and `*ret_write` says whether it is the socket's write side
 * that is waited for; -EPROTO for what is no sound TLS, -ECONNRESET, or another negative errno.
 * After a record that carries nothing (new keys), tls_read() returns -EAGAIN with more perhaps
 * in the socket: it goes on when asked again.
 */
ssize_t tls_read(struct ssl_st *s, void *p, size_t n, bool *ret_write);
ssize_t tls_write(struct ssl_st *s, const void *p, size_t n, bool *ret_write);
/* Bytes that tls_read() gives without the socket. */
bool tls_holds(const struct ssl_st *s);
/* Tells the peer that nothing more comes, if that can be told without waiting. */
void tls_shutdown(struct ssl_st *s);

/* True if the peer showed a certificate; `ret` is the SHA-256 of its DER. */
bool tls_certificate(const struct ssl_st *s, uint8_t ret[32]);

#endif /* GATEWAY_TLS_H */
