#include "gateway/tls.h"

#include <errno.h>
#include <limits.h>
#include <sys/types.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

/* Of TLS 1.2; those of 1.3 are all sound. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define CLIENT_CHAIN_MAX (16u << 10) /* bytes of the certificates that a client may show */

void
tls_init(void)
{
	OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

/* Its key is proven; whose it is, the broker decides. */
static int
accept_any(X509_STORE_CTX *store, void *arg)
{
	(void)arg;
	X509_STORE_CTX_set_error(store, X509_V_OK);
	return 1;
}

/* A key that needs a password is refused; OpenSSL would ask a terminal for it. */
static int
no_password(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return 0;
}

/* A client that offers protocols, and not ours, means somebody else. */
static int
choose_protocol(SSL *s, const unsigned char **out, unsigned char *out_n,
    const unsigned char *in, unsigned in_n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)s;
	(void)arg;
	return SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_n, ours,
		   sizeof(ours) - 1, in, in_n) == OPENSSL_NPN_NEGOTIATED ?
	    SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool
use_chain(SSL_CTX *tls, BIO *pem)
{
	X509 *x = PEM_read_bio_X509(pem, NULL, no_password, NULL);
	bool ok = x != NULL && SSL_CTX_use_certificate(tls, x) == 1;

	X509_free(x);
	while (ok && (x = PEM_read_bio_X509(pem, NULL, no_password, NULL)) != NULL) {
		ok = SSL_CTX_add0_chain_cert(tls, x) == 1;
		if (!ok)
			X509_free(x);
	}
	/* Behind the last one there is none, which is no error; one that is damaged is. */
	return ok && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

static const char *
load(SSL_CTX *tls, struct slice certificate, struct slice key)
{
	BIO *chain_pem = BIO_new_mem_buf(certificate.p, (int)certificate.n);
	BIO *key_pem = BIO_new_mem_buf(key.p, (int)key.n);
	EVP_PKEY *pkey = NULL;
	const char *why = NULL;

	if (chain_pem == NULL || key_pem == NULL)
		why = "memory is out";
	else if (!use_chain(tls, chain_pem))
		why = "the certificate is no PEM chain that TLS can use; name the server's "
		      "certificate first, then its issuers";
	else if ((pkey = PEM_read_bio_PrivateKey(key_pem, NULL, no_password, NULL)) == NULL)
		why = "the key is no PEM private key without a password";
	else if (SSL_CTX_use_PrivateKey(tls, pkey) != 1)
		why = "the key is not that of the certificate";
	EVP_PKEY_free(pkey);
	BIO_free(chain_pem);
	BIO_free(key_pem);
	ERR_clear_error();
	return why;
}

struct ssl_ctx_st *
tls_create(struct slice certificate, struct slice key, bool ask, const char **ret_why)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

	*ret_why = "memory is out";
	if (tls == NULL)
		return NULL;
	*ret_why = "this OpenSSL has no TLS 1.2 with our ciphers";
	if (SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(tls, CIPHERS) != 1 ||
	    SSL_CTX_set_num_tickets(tls, 0) != 1)
		goto fail;
	SSL_CTX_set_options(tls,
	    SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
		SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(tls,
	    SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
		SSL_MODE_RELEASE_BUFFERS);
	/* A read handles one record: who sends new keys without end would hold it for ever. */
	SSL_CTX_clear_mode(tls, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_alpn_select_cb(tls, choose_protocol, NULL);
	SSL_CTX_set_max_cert_list(tls, CLIENT_CHAIN_MAX);
	if (ask) {
		SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_cert_verify_callback(tls, accept_any, NULL);
	}
	*ret_why = load(tls, certificate, key);
	if (*ret_why == NULL)
		return tls;
fail:
	ERR_clear_error();
	SSL_CTX_free(tls);
	return NULL;
}

void
tls_destroy(struct ssl_ctx_st *tls)
{
	SSL_CTX_free(tls);
}

struct ssl_st *
tls_open(struct ssl_ctx_st *tls, int fd)
{
	SSL *s = SSL_new(tls);

	if (s != NULL && SSL_set_fd(s, fd) == 1) {
		SSL_set_accept_state(s);
		return s;
	}
	SSL_free(s);
	ERR_clear_error();
	return NULL;
}

void
tls_close(struct ssl_st *s)
{
	SSL_free(s);
}

/* What is not done, and why. */
static ssize_t
undone(SSL *s, int ret, int saved_errno, bool *ret_write)
{
	int error = SSL_get_error(s, ret);
	unsigned long reason = ERR_peek_error();

	ERR_clear_error();
	*ret_write = error == SSL_ERROR_WANT_WRITE;
	switch (error) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return saved_errno != 0 ? -saved_errno : -ECONNRESET;
	default:
		/* Gone without a word of farewell. */
		return ERR_GET_REASON(reason) == SSL_R_UNEXPECTED_EOF_WHILE_READING ?
		    -ECONNRESET : -EPROTO;
	}
}

ssize_t
tls_read(struct ssl_st *s, void *p, size_t n, bool *ret_write)
{
	int got;

	errno = 0;
	got = SSL_read(s, p, n < INT_MAX ? (int)n : INT_MAX);
	return got > 0 ? got : undone(s, got, errno, ret_write);
}

ssize_t
tls_write(struct ssl_st *s, const void *p, size_t n, bool *ret_write)
{
	int done;
	ssize_t r;

	errno = 0;
	done = SSL_write(s, p, n < INT_MAX ? (int)n : INT_MAX);
	if (done > 0)
		return done;
	r = undone(s, done, errno, ret_write);
	return r == 0 ? -EPIPE : r;
}

bool
tls_holds(const struct ssl_st *s)
{
	return SSL_pending(s) > 0;
}

void
tls_shutdown(struct ssl_st *s)
{
	if (SSL_is_init_finished(s))
		SSL_shutdown(s);
	ERR_clear_error();
}

bool
tls_certificate(const struct ssl_st *s, uint8_t ret[32])
{
	X509 *x = SSL_get1_peer_certificate(s);
	unsigned n = 0;
	bool ok = x != NULL && X509_digest(x, EVP_sha256(), ret, &n) == 1 && n == 32;

	X509_free(x);
	return ok;
}
