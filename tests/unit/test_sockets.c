/* sockets, activation: where the gateway listens, whoever opened it. */
#include "supervisor/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "supervisor/activation.h"

#define FIRST 40 /* 3 is one of the test program's own */

static char dir[64], path[96], err[SOCKETS_ERROR_MAX];
static struct sockets *s;

static void
setup(void)
{
	strlcpy(dir, "/tmp/test_sockets-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/g.sock", dir);
	s = NULL;
}

static void
teardown(void)
{
	sockets_close(s);
	ck_assert_int_eq(rmdir(dir), 0);
}

static int
open_one(const char *address, const char *socket_path, struct activation *a)
{
	const struct sockets_want w = { "gateway.listen[0]", address, socket_path, "public" };

	return sockets_open(&w, 1, a, &s, err);
}

START_TEST(addresses_are_numeric_with_a_port)
{
	static const struct {
		const char *text;
		int family; /* 0: refused */
		bool loopback;
	} t[] = {
		{ "127.0.0.1:8443", AF_INET, true },
		{ "127.1.2.3:0", AF_INET, true },
		{ "0.0.0.0:65535", AF_INET, false },
		{ "192.0.2.1:1", AF_INET, false },
		{ "[::1]:8443", AF_INET6, true },
		{ "[::]:443", AF_INET6, false },
		{ "[::ffff:127.0.0.1]:443", AF_INET6, false },
		{ "127.0.0.1", 0, false },	    /* no port */
		{ "127.0.0.1:", 0, false },	    /* no port */
		{ "127.0.0.1:65536", 0, false },    /* beyond */
		{ "127.0.0.1:+1", 0, false },	    /* no number */
		{ "127.0.0.1:8443x", 0, false },    /* no number */
		{ ":8443", 0, false },		    /* no address */
		{ "localhost:8443", 0, false },	    /* a name, which somebody else resolves */
		{ "::1:8443", 0, false },	    /* brackets missing */
		{ "[::1:8443", 0, false },	    /* one is missing */
		{ "[]:8443", 0, false },	    /* nothing in them */
		{ "[127.0.0.1]:8443", 0, false },   /* not of this kind */
		{ "[fe80::1%lo]:8443", 0, false },  /* no zone */
		{ "", 0, false },
	};
	struct sockaddr_storage a;
	socklen_t size;

	for (size_t i = 0; i < countof(t); i++) {
		int r = sockets_parse(t[i].text, &a, &size);

		ck_assert_msg(r == (t[i].family ? 0 : -EINVAL), "%s: %d", t[i].text, r);
		if (r < 0)
			continue;
		ck_assert_msg(a.ss_family == t[i].family, "%s", t[i].text);
		ck_assert_msg(sockets_is_loopback(&a) == t[i].loopback, "%s", t[i].text);
	}
}
END_TEST

START_TEST(what_is_wanted_listens_in_order)
{
	const struct sockets_want w[] = {
		{ "gateway.listen[0]", "127.0.0.1:0", NULL, "public" },
		{ "gateway.listen[1]", NULL, path, "public" },
		{ "gateway.monitor", "127.0.0.1:0", NULL, "monitor" },
	};
	char name[SOCKETS_NAME_MAX];
	struct sockaddr_storage a;
	struct stat st;
	socklen_t size;

	ck_assert_msg(sockets_open(w, countof(w), NULL, &s, err) == 0, "%s", err);
	ck_assert_uint_eq(sockets_count(s), 3);
	sockets_name(s, 0, name);
	ck_assert_int_eq(sockets_parse(name, &a, &size), 0);
	ck_assert_uint_ne(((struct sockaddr_in *)&a)->sin_port, 0);
	sockets_name(s, 1, name);
	ck_assert_str_eq(name, path);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(fcntl(sockets_fds(s)[i], F_GETFD), FD_CLOEXEC);
		ck_assert_int_ne(fcntl(sockets_fds(s)[i], F_GETFL) & O_NONBLOCK, 0);
	}
}
END_TEST

START_TEST(nothing_wanted_is_nothing)
{
	ck_assert_int_eq(sockets_open(NULL, 0, NULL, &s, err), 0);
	ck_assert_ptr_null(s);
	ck_assert_uint_eq(sockets_count(s), 0);
}
END_TEST

START_TEST(an_address_that_is_taken_is_named_with_its_key)
{
	char name[SOCKETS_NAME_MAX];
	struct sockets *first;

	ck_assert_int_eq(open_one("127.0.0.1:0", NULL, NULL), 0);
	first = s;
	sockets_name(first, 0, name);
	ck_assert_int_eq(open_one(name, NULL, NULL), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err, "gateway.listen[0]: 127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(err, "name another port"));
	sockets_close(first);
	ck_assert_ptr_null(s);
}
END_TEST

START_TEST(a_path_is_locked_and_a_stale_one_taken_over)
{
	struct sockets *first;

	ck_assert_msg(open_one(NULL, path, NULL) == 0, "%s", err);
	first = s;
	ck_assert_int_eq(open_one(NULL, path, NULL), -EWOULDBLOCK);
	ck_assert_ptr_nonnull(strstr(err, "gateway.listen[0] /tmp/"));
	sockets_close(first);
	ck_assert_int_eq(access(path, F_OK), -1);
	ck_assert_int_eq(mknod(path, S_IFSOCK | 0600, 0), 0);
	ck_assert_msg(open_one(NULL, path, NULL) == 0, "%s", err);
}
END_TEST

/* ---- what systemd opened ----------------------------------------------------------- */

/* A descriptor as systemd would hand it over. */
static void
inherit(int fd, const char *name)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_FDNAMES", name, 1);
	if (fd != FIRST) {
		ck_assert_int_eq(dup2(fd, FIRST), FIRST);
		close(fd);
	}
}

static int
tcp_socket(bool listens)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	if (listens)
		ck_assert_int_eq(listen(fd, 1), 0);
	return fd;
}

START_TEST(a_socket_of_systemd_takes_the_place_with_its_address)
{
	char name[SOCKETS_NAME_MAX], inherited[SOCKETS_NAME_MAX];
	struct sockaddr_in in;
	socklen_t size = sizeof(in);
	struct activation a;

	inherit(tcp_socket(true), "public");
	ck_assert_msg(activation_read(FIRST, &a, err) == 0, "%s", err);
	ck_assert_ptr_null(getenv("LISTEN_FDS"));
	ck_assert_ptr_null(getenv("LISTEN_PID"));
	ck_assert_int_eq(fcntl(FIRST, F_GETFD), FD_CLOEXEC);
	getsockname(FIRST, (struct sockaddr *)&in, &size);
	snprintf(inherited, sizeof(inherited), "127.0.0.1:%u", ntohs(in.sin_port));
	/* Another name than its own has none. */
	ck_assert_int_eq(activation_take(&a, "monitor", NULL, 0), -ENOENT);
	ck_assert_msg(open_one(inherited, NULL, &a) == 0, "%s", err);
	ck_assert_int_eq(sockets_fds(s)[0], FIRST);
	sockets_name(s, 0, name);
	ck_assert_str_eq(name, inherited);
	ck_assert_int_eq(activation_check(&a, err), 0);
	activation_finish(&a);
	ck_assert_int_eq(fcntl(FIRST, F_GETFD), FD_CLOEXEC);
}
END_TEST

/* 127.0.0.1 may go without TLS, and nothing else: what listens elsewhere is not it. */
START_TEST(a_socket_at_another_address_is_refused)
{
	struct activation a;

	inherit(tcp_socket(true), "public");
	ck_assert_int_eq(activation_read(FIRST, &a, err), 0);
	ck_assert_msg(open_one("127.0.0.2:0", NULL, &a) == 0, "%s", err);
	ck_assert_int_ne(sockets_fds(s)[0], FIRST);
	ck_assert_int_eq(activation_check(&a, err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "no socket of this configuration"));
	activation_finish(&a);
	ck_assert_int_eq(fcntl(FIRST, F_GETFD), -1);
}
END_TEST

START_TEST(what_is_no_listening_socket_of_the_kind_is_refused)
{
	static const struct {
		const char *name, *text;
		int kind; /* 0: a file, 1: not listening, 2: TCP */
	} t[] = {
		{ "public", "no listening stream socket", 0 },
		{ "public", "no listening stream socket", 1 },
		{ "local", "is no UNIX socket", 2 },
		{ "caissond.socket", "expected FileDescriptorName=public, monitor or local", 2 },
		{ "", "expected FileDescriptorName=public, monitor or local", 2 },
	};
	struct activation a;

	for (size_t i = 0; i < countof(t); i++) {
		inherit(t[i].kind == 0 ? open("/dev/null", O_RDWR) : tcp_socket(t[i].kind == 2),
		    t[i].name);
		ck_assert_int_eq(activation_read(FIRST, &a, err), -EINVAL);
		ck_assert_msg(strstr(err, t[i].text), "%s", err);
		activation_finish(&a);
		close(FIRST);
	}
}
END_TEST

START_TEST(somebody_elses_sockets_are_left_alone)
{
	struct activation a;

	inherit(tcp_socket(true), "public");
	setenv("LISTEN_PID", "1", 1);
	ck_assert_int_eq(activation_read(FIRST, &a, err), 0);
	ck_assert_uint_eq(a.n, 0);
	close(FIRST);
	setenv("LISTEN_FDS", "x", 1);
	ck_assert_int_eq(activation_read(FIRST, &a, err), 0);
}
END_TEST

static Suite *
suite(void)
{
	Suite *su = suite_create("sockets");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, addresses_are_numeric_with_a_port);
	tcase_add_test(t, what_is_wanted_listens_in_order);
	tcase_add_test(t, nothing_wanted_is_nothing);
	tcase_add_test(t, an_address_that_is_taken_is_named_with_its_key);
	tcase_add_test(t, a_path_is_locked_and_a_stale_one_taken_over);
	tcase_add_test(t, a_socket_of_systemd_takes_the_place_with_its_address);
	tcase_add_test(t, a_socket_at_another_address_is_refused);
	tcase_add_test(t, what_is_no_listening_socket_of_the_kind_is_refused);
	tcase_add_test(t, somebody_elses_sockets_are_left_alone);
	suite_add_tcase(su, t);
	return su;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
