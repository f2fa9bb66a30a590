/* libcaisson's own ends: where it is told to go, and what it lets a gateway say. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/session.h"
#include "common/util.h"

static struct caisson_error error;

/* ---- targets ------------------------------------------------------------------------------ */

static const struct {
	const char *text;
	enum target_kind kind;
	bool tls;
	const char *path, *host, *port;
} targets[] = {
	{ "/run/caisson/default.sock", TARGET_LOCAL, false, "/run/caisson/default.sock", NULL, NULL },
	{ "http+unix:///run/http.sock", TARGET_UNIX, false, "/run/http.sock", NULL, NULL },
	{ "https://a.example", TARGET_TCP, true, NULL, "a.example", "443" },
	{ "https://a.example:8443/", TARGET_TCP, true, NULL, "a.example", "8443" },
	{ "http://127.0.0.1:80", TARGET_TCP, false, NULL, "127.0.0.1", "80" },
	{ "https://[::1]:8443", TARGET_TCP, true, NULL, "::1", "8443" },
	{ "https://[fe80::1%eth0]", TARGET_TCP, true, NULL, "fe80::1%eth0", "443" },
};

START_TEST(a_target_says_where_and_how)
{
	struct target t;

	ck_assert_int_eq(target_parse(targets[_i].text, &t, &error), 0);
	ck_assert_int_eq(t.kind, targets[_i].kind);
	ck_assert_int_eq(t.tls, targets[_i].tls);
	ck_assert_pstr_eq(t.path, targets[_i].path);
	ck_assert_pstr_eq(t.host, targets[_i].host);
	ck_assert_pstr_eq(t.port, targets[_i].port);
	target_finish(&t);
}
END_TEST

static const char *const no_targets[] = { "ftp://a", "https://", "https://:1", "https://a:0",
	"https://a:65536", "https://a:1x", "https://u@a", "https://a/path", "https://a?x", "https://[::1",
	"https://[::1]x", "https://a b", "http+unix://relative", "https://a:" };

START_TEST(what_is_no_target_is_named)
{
	struct target t;

	ck_assert_int_eq(target_parse(no_targets[_i], &t, &error), -1);
	ck_assert_str_eq(error.code, "usage");
	ck_assert_ptr_nonnull(strstr(error.message, no_targets[_i]));
	target_finish(&t);
}
END_TEST

/* ---- answers -------------------------------------------------------------------------------- */

#define HEAD "HTTP/1.1 200 OK\r\n"

static int
parse(const char *text, struct wire_response *ret)
{
	return wire_parse_response((struct slice){ (const uint8_t *)text, strlen(text) }, ret, &error);
}

START_TEST(an_answer_has_a_status_and_a_length)
{
	struct wire_response r;

	ck_assert_int_eq(parse(HEAD "content-length:  5 \r\nConnection: close\r\n\r\nhello", &r), 1);
	ck_assert_uint_eq(r.status, 200);
	ck_assert_uint_eq(r.body_bytes, 5);
	ck_assert(r.close);
	ck_assert_int_eq(parse("HTTP/1.1 204 No Content\r\n\r\n", &r), 1);
	ck_assert_uint_eq(r.body_bytes, 0);
	ck_assert_int_eq(parse("HTTP/1.1 101\r\nSec-WebSocket-Accept: x\r\n\r\n", &r), 1);
	ck_assert_str_eq(r.accept, "x");
	ck_assert_int_eq(parse(HEAD "Content-Length: 5\r\n", &r), 0);
}
END_TEST

static const char *const no_answers[] = {
	"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 2000\r\nContent-Length: 0\r\n\r\n",
	HEAD "\r\n",
	HEAD "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
	HEAD "Content-Length: -1\r\n\r\n",
	HEAD "Content-Length: 0x1\r\n\r\n",
	HEAD "Content-Length: 99999999999999999999\r\n\r\n",
	HEAD "Content-Length:\r\n\r\n",
	HEAD "Transfer-Encoding: chunked\r\n\r\n",
	HEAD "Content-Length: 0\r\n folded\r\n\r\n",
	HEAD "no colon\r\nContent-Length: 0\r\n\r\n",
	HEAD ": no name\r\nContent-Length: 0\r\n\r\n",
	"ICY 200 OK\r\n\r\n",
};

START_TEST(what_means_two_things_is_no_answer)
{
	struct wire_response r;

	ck_assert_int_eq(parse(no_answers[_i], &r), -1);
	ck_assert_str_eq(error.code, "protocol");
}
END_TEST

START_TEST(a_head_without_end_is_given_up)
{
	struct wire_response r;
	size_t n = 64u << 10;
	char *text = malloc(n + 1);

	memset(text, 'a', n);
	text[n] = '\0';
	ck_assert_int_eq(parse(text, &r), -1);
	free(text);
}
END_TEST

/* ---- frames --------------------------------------------------------------------------------- */

/* RFC 6455, 5.3: a gateway closes on a frame that is not masked. */
START_TEST(frames_are_masked_and_each_differently)
{
	struct buf frames[2] = { { 0 }, { 0 } };
	struct wshead h;

	for (int i = 0; i < 2; i++) {
		wire_frame(&frames[i], WSHEAD_TEXT, "hello", 5);
		ck_assert_int_eq(wshead_read(frames[i].p, frames[i].n, true, &h), 1);
		ck_assert(h.type == WSHEAD_TEXT && h.last);
		ck_assert_uint_eq(h.bytes, 6);
		ck_assert_uint_eq(frames[i].n, h.bytes + h.payload_bytes);
		for (size_t k = 0; k < 5; k++)
			ck_assert_int_eq(frames[i].p[6 + k] ^ frames[i].p[2 + k % 4], "hello"[k]);
	}
	ck_assert(memcmp(frames[0].p + 2, frames[1].p + 2, 4) != 0);
	buf_finish(&frames[0]);
	buf_finish(&frames[1]);
}
END_TEST

START_TEST(a_key_is_one_that_a_gateway_takes_and_always_another)
{
	char keys[2][WSHEAD_KEY + 1], accept[WSHEAD_ACCEPT + 1];

	for (int i = 0; i < 2; i++) {
		wire_key(keys[i]);
		ck_assert(wshead_accept(slice_of(keys[i]), accept));
	}
	ck_assert_str_ne(keys[0], keys[1]);
}
END_TEST

/* OP-29 */
START_TEST(a_lease_is_renewed_at_a_third_within_bounds)
{
	ck_assert_uint_eq(heartbeat_ms(90), 100);
	ck_assert_uint_eq(heartbeat_ms(3000), 1000);
	ck_assert_uint_eq(heartbeat_ms(3600000), 30000);
}
END_TEST

START_TEST(a_token_is_for_a_gateway_and_holds_no_blank)
{
	static const struct caisson_options bad[] = {
		{ .target = "/d.sock", .token = "t" },
		{ .target = "http://a", .token = "" },
		{ .target = "http://a", .token = "a b" },
		{ .target = "http://a", .token = "a\r\nHost: b" },
		{ .target = "http://a", .authorities = "/dev/null" },
		{ .target = "https://a", .authorities = "/dev/null" },
		{ .target = "" },
	};

	ck_assert_ptr_null(caisson_client_create(&bad[_i], &error));
	ck_assert_str_eq(error.code, "usage");
}
END_TEST

START_TEST(a_key_is_refused_before_anything_is_asked) /* D-10 */
{
	static const char *const bad[] = { "", "a b", "a\r\nHost: b" };
	struct caisson_client *c = caisson_client_create(
	    &(struct caisson_options){ .target = "http://127.0.0.1:1" }, &error);
	struct caisson_acquire a = { .runtime = "shell", .idempotency_key = bad[_i] };

	ck_assert_ptr_nonnull(c);
	ck_assert_ptr_null(caisson_acquire(c, &a, &error));
	ck_assert_str_eq(error.code, "usage");
	caisson_client_destroy(c);
}
END_TEST

/* A length that would be small again with what has come already. */
START_TEST(a_message_has_a_bound_whatever_its_fragments_say)
{
	static uint8_t bytes[] = "\x01\x01x\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff";
	struct channel ch = { .fd = -1, .in = { bytes, sizeof bytes - 1, sizeof bytes, false } };
	struct wire w = { .ops = &web_ops, .ch = &ch };
	struct incoming in;

	ck_assert_int_eq(web_next(&w, &in, &error), -1);
	ck_assert_str_eq(error.code, "protocol");
	buf_finish(&w.message);
}
END_TEST

/* What has come lies in the queue that a step would move: it is handed out first. */
START_TEST(what_was_accepted_outlives_a_step)
{
	struct caisson_sandbox box = { .id = (char *)(uintptr_t) "s-1" };
	struct channel ch = { .fd = -1 }; /* to step on this fails */
	struct wire w = { .ops = &web_ops, .ch = &ch };
	struct caisson_session s = { .sandbox = &box, .wire = &w, .active = true, .held = true,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.accepted = { .sequence = 1, .type = event_type_accepted } };
	struct caisson_event event;

	ck_assert_int_eq(caisson_session_step(&s, &error), 0);
	ck_assert_int_eq(caisson_session_next(&s, &event, &error), 1);
	ck_assert_int_eq(event.type, CAISSON_ACCEPTED);
	ck_assert_int_eq(caisson_session_step(&s, &error), -1);
	buf_finish(&ch.in);
	buf_finish(&s.json);
	buf_finish(&s.code);
}
END_TEST

/* Not the first page over again, and nothing is sent. */
START_TEST(a_cursor_that_is_none_is_named)
{
	static const char *const cursors[] = { "12x", "-1", " 1", "99999999999999999999" };
	struct call call = { .verb = VERB_LIST, .limit = 1, .cursor = cursors[_i] };
	struct wire w = { .ops = &local_ops };
	struct buf ret = { 0 };

	ck_assert_int_eq(local_ops.call(&w, &call, &ret, &error), -1);
	ck_assert_str_eq(error.code, "usage");
	ck_assert_ptr_nonnull(strstr(error.message, cursors[_i]));
	ck_assert_uint_eq(ret.n, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libcaisson");
	TCase *t = tcase_create("edge");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, a_target_says_where_and_how, 0, countof(targets));
	tcase_add_loop_test(t, what_is_no_target_is_named, 0, countof(no_targets));
	tcase_add_test(t, an_answer_has_a_status_and_a_length);
	tcase_add_loop_test(t, what_means_two_things_is_no_answer, 0, countof(no_answers));
	tcase_add_test(t, a_head_without_end_is_given_up);
	tcase_add_test(t, frames_are_masked_and_each_differently);
	tcase_add_test(t, a_key_is_one_that_a_gateway_takes_and_always_another);
	tcase_add_test(t, a_lease_is_renewed_at_a_third_within_bounds);
	tcase_add_loop_test(t, a_token_is_for_a_gateway_and_holds_no_blank, 0, 7);
	tcase_add_loop_test(t, a_key_is_refused_before_anything_is_asked, 0, 3);
	tcase_add_test(t, a_message_has_a_bound_whatever_its_fragments_say);
	tcase_add_test(t, what_was_accepted_outlives_a_step);
	tcase_add_loop_test(t, a_cursor_that_is_none_is_named, 0, 4);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
