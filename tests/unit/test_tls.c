/* TLS on the server's side, against a client of OpenSSL's over a socket pair. */
#include "gateway/tls.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <check.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

struct ends {
	struct ssl_ctx_st *server_tls;
	struct ssl_st *server;
	SSL_CTX *client_tls;
	SSL *client;
	int fd[2]; /* the server's, the client's; neither waits */
};

static struct slice
text_of(BIO *pem)
{
	char *p;
	long n = BIO_get_mem_data(pem, &p);

	return (struct slice){ (const uint8_t *)p, (size_t)n };
}

/* A key and a certificate of its own. */
static void
make_identity(BIO *key_pem, BIO *certificate_pem)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	ck_assert_ptr_nonnull(key);
	ck_assert_ptr_nonnull(x);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	ck_assert_int_eq(X509_set_pubkey(x, key), 1);
	ck_assert_int_gt(X509_sign(x, key, EVP_sha256()), 0);
	ck_assert_int_eq(PEM_write_bio_X509(certificate_pem, x), 1);
	ck_assert_int_eq(
	    PEM_write_bio_PrivateKey(key_pem, key, NULL, NULL, 0, NULL, NULL), 1);
	X509_free(x);
	EVP_PKEY_free(key);
}

static void
shake_hands(struct ends *e)
{
	uint8_t none[1];
	bool write_side;

	for (int i = 0; i < 100 && !SSL_is_init_finished(e->client); i++) {
		SSL_do_handshake(e->client);
		ck_assert_int_eq(
		    tls_read(e->server, none, sizeof(none), &write_side), -EAGAIN);
	}
	ck_assert(SSL_is_init_finished(e->client));
	ck_assert_int_eq(tls_read(e->server, none, sizeof(none), &write_side), -EAGAIN);
}

static void
open_ends(struct ends *e)
{
	BIO *key = BIO_new(BIO_s_mem()), *certificate = BIO_new(BIO_s_mem());
	const char *why;

	tls_init();
	make_identity(key, certificate);
	e->server_tls = tls_create(text_of(certificate), text_of(key), false, &why);
	ck_assert_msg(e->server_tls != NULL, "%s", why);
	BIO_free(key);
	BIO_free(certificate);
	e->client_tls = SSL_CTX_new(TLS_client_method());
	ck_assert_ptr_nonnull(e->client_tls);
	ck_assert_int_eq(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, e->fd), 0);
	e->server = tls_open(e->server_tls, e->fd[0]);
	e->client = SSL_new(e->client_tls);
	ck_assert_ptr_nonnull(e->server);
	ck_assert_int_eq(SSL_set_fd(e->client, e->fd[1]), 1);
	SSL_set_connect_state(e->client);
	shake_hands(e);
}

static void
close_ends(struct ends *e)
{
	tls_close(e->server);
	tls_destroy(e->server_tls);
	SSL_free(e->client);
	SSL_CTX_free(e->client_tls);
	close(e->fd[0]);
	close(e->fd[1]);
}

static int
waiting_bytes(int fd)
{
	int n;

	ck_assert_int_eq(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

/* Each asks for an answer in kind; nobody else is served while one call takes them all. */
START_TEST(new_keys_without_end_hold_no_read)
{
	enum { UPDATES = 50, CALLS_MAX = 4 * UPDATES };
	struct ends e;
	uint8_t got[16];
	ssize_t r = -EAGAIN;
	int one, before, left, calls = 0;
	bool write_side;

	open_ends(&e);
	for (int i = 0; i < UPDATES; i++) {
		ck_assert_int_eq(SSL_key_update(e.client, SSL_KEY_UPDATE_REQUESTED), 1);
		ck_assert_int_eq(SSL_do_handshake(e.client), 1);
	}
	left = waiting_bytes(e.fd[0]);
	one = left / UPDATES;
	ck_assert_int_eq(SSL_write(e.client, "hello", 5), 5);
	left = waiting_bytes(e.fd[0]);
	for (; r == -EAGAIN && calls < CALLS_MAX; calls++) {
		before = left;
		r = tls_read(e.server, got, sizeof(got), &write_side);
		left = waiting_bytes(e.fd[0]);
		ck_assert(r != -EAGAIN || before - left <= one);
	}
	ck_assert_int_eq(r, 5);
	ck_assert_mem_eq(got, "hello", 5);
	ck_assert_int_gt(calls, UPDATES);

	/* ... and what the server says with the keys that are new, the client reads. */
	ck_assert_int_eq(tls_write(e.server, "there", 5, &write_side), 5);
	ck_assert_int_eq(SSL_read(e.client, got, sizeof(got)), 5);
	ck_assert_mem_eq(got, "there", 5);
	close_ends(&e);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("tls");
	TCase *t = tcase_create("tls");
	SRunner *r;
	int failed;

	tcase_add_test(t, new_keys_without_end_hold_no_read);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
