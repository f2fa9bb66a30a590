#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/session.h"
#include "common/util.h"

/* What a gateway may say on a session, and what libcaisson does not believe. */

static struct caisson_error error;

/* ---- a session to which was said ---------------------------------------------------------- */

struct said {
	struct channel ch;
	struct wire w;
	struct caisson_sandbox box;
	struct caisson_session s;
};

static void
said_init(struct said *t)
{
	*t = (struct said){ .ch = { .fd = -1 }, .box = { .id = (char *)(uintptr_t) "s-1" } };
	t->w = (struct wire){ .ops = &web_ops, .ch = &t->ch };
	t->s = (struct caisson_session){ .sandbox = &t->box, .wire = &t->w,
		.lock = PTHREAD_MUTEX_INITIALIZER };
}

static void
said_finish(struct said *t)
{
	buf_finish(&t->ch.in);
	buf_finish(&t->ch.out);
	buf_finish(&t->w.message);
	buf_finish(&t->w.value);
	buf_finish(&t->w.data);
	buf_finish(&t->s.json);
	buf_finish(&t->s.code);
}

/* A whole message of a server's (RFC 6455, 5.2). */
static void
say(struct said *t, const char *text)
{
	size_t n = strlen(text);
	uint8_t head[WSHEAD_MAX];

	buf_add(&t->ch.in, head, wshead_write(WSHEAD_TEXT, NULL, n, head));
	buf_add(&t->ch.in, text, n);
}

static void
say_event(struct said *t, unsigned sequence, const char *type, const char *body)
{
	char line[256];

	snprintf(line, sizeof line, "{\"sequence\":%u,\"type\":\"%s\",\"%s\":%s}", sequence, type,
	    type, body);
	say(t, line);
}

/* As if that much of operation op-1 had been handed out. */
static void
go_on_behind(struct said *t, uint64_t sequence)
{
	t->s.active = true;
	t->s.last = sequence;
	snprintf(t->s.operation, sizeof t->s.operation, "op-1");
}

/* The types of what is handed out, up to what is none, which is returned. */
static int
take_all(struct said *t, char types[16])
{
	static const char letters[] = "aopcfg";
	struct caisson_event event;
	size_t n = 0;
	int r;

	while ((r = caisson_session_next(&t->s, &event, &error)) == 1 && n < 15)
		types[n++] = letters[event.type];
	types[n] = '\0';
	return r;
}

/* ---- order --------------------------------------------------------------------------------- */

static const struct {
	uint64_t behind;
	unsigned sequence;
	const char *type, *body;
	bool believed;
} orders[] = {
	{ 0, 1, "accepted", "{\"operationID\":\"op-1\"}", true },
	{ 0, 2, "accepted", "{\"operationID\":\"op-1\"}", false },
	{ 4, 5, "progress", "{}", true },
	{ 4, 4, "progress", "{}", false },
	{ 4, 6, "progress", "{}", false },
	{ 4, 0, "progress", "{}", false },
	{ 4, 9, "gap", "{\"from\":5,\"to\":9}", true },
	{ 4, 9, "gap", "{\"from\":6,\"to\":9}", false },
	{ 4, 9, "gap", "{\"from\":4,\"to\":9}", false },
	{ 4, 9, "gap", "{\"from\":5,\"to\":8}", false },
	{ 4, 4, "gap", "{\"from\":5,\"to\":4}", false },
	{ 4, 9, "gap", "{\"from\":\"5\",\"to\":9}", false },
	{ 4, 9, "gap", "{}", false },
};

/* OP-40: what is missing is named, or it is not missing. */
START_TEST(a_hole_or_a_repeat_is_the_end_of_the_connection)
{
	struct caisson_event event;
	struct said t;
	int r;

	said_init(&t);
	go_on_behind(&t, orders[_i].behind);
	say_event(&t, orders[_i].sequence, orders[_i].type, orders[_i].body);
	r = caisson_session_next(&t.s, &event, &error);
	ck_assert_int_eq(r, orders[_i].believed ? 1 : -1);
	ck_assert_uint_eq(
	    caisson_last_sequence(&t.s), orders[_i].believed ? orders[_i].sequence : orders[_i].behind);
	if (!orders[_i].believed) {
		ck_assert_str_eq(error.code, "protocol");
		say_event(&t, (unsigned)orders[_i].behind + 1, "progress", "{}");
		ck_assert_int_eq(caisson_session_next(&t.s, &event, &error), -1);
	}
	said_finish(&t);
}
END_TEST

START_TEST(nothing_comes_behind_the_end)
{
	char types[16];
	struct said t;

	said_init(&t);
	go_on_behind(&t, 1);
	say_event(&t, 2, "completed", "{}");
	say_event(&t, 3, "progress", "{}");
	ck_assert_int_eq(take_all(&t, types), -1);
	ck_assert_str_eq(types, "c");
	ck_assert_str_eq(error.code, "protocol");
	said_finish(&t);
}
END_TEST

/* ---- cancellations -------------------------------------------------------------------------- */

#define TOO_LATE "{\"type\":\"error\",\"error\":\"it is over\",\"code\":\"not_found\"}"
#define REFUSED	 "{\"type\":\"error\",\"error\":\"no\",\"code\":\"resource_exhausted\"}"
#define CANCELED "{\"type\":\"cancel\",\"operationID\":\"op-1\"}"

/* OP-25: the refusal is of the cancellation; the operation is under way as before. */
START_TEST(a_cancellation_that_came_too_late_ends_nothing)
{
	char types[16];
	struct said t;

	said_init(&t);
	go_on_behind(&t, 1);
	ck_assert_int_eq(web_ops.cancel(&t.w, "op-1", &error), 0);
	say(&t, TOO_LATE);
	say_event(&t, 2, "progress", "{}");
	say_event(&t, 3, "completed", "{}");
	ck_assert_int_eq(take_all(&t, types), 0);
	ck_assert_str_eq(types, "pc");
	said_finish(&t);
}
END_TEST

START_TEST(a_refusal_behind_a_late_cancellation_is_of_what_was_sent_next)
{
	struct caisson_operation op = { .kind = CAISSON_COMMAND, .shell = "true" };
	char types[16];
	struct said t;

	said_init(&t);
	go_on_behind(&t, 1);
	ck_assert_int_eq(web_ops.cancel(&t.w, "op-1", &error), 0);
	say_event(&t, 2, "completed", "{}");
	ck_assert_int_eq(take_all(&t, types), 0);
	ck_assert_int_eq(web_ops.send(&t.w, "s-1", &op, &error), 0);
	say(&t, TOO_LATE);
	ck_assert_int_eq(take_all(&t, types), 0);
	say(&t, REFUSED);
	ck_assert_int_eq(take_all(&t, types), 2);
	ck_assert_str_eq(error.code, "resource_exhausted");
	said_finish(&t);
}
END_TEST

START_TEST(a_cancellation_that_nobody_asked_for_is_not_believed)
{
	char types[16];
	struct said t;

	said_init(&t);
	go_on_behind(&t, 1);
	ck_assert_int_eq(web_ops.cancel(&t.w, "op-1", &error), 0);
	say(&t, CANCELED);
	ck_assert_int_eq(take_all(&t, types), 0);
	say(&t, CANCELED);
	ck_assert_int_eq(take_all(&t, types), -1);
	ck_assert_str_eq(error.code, "protocol");
	said_finish(&t);
}
END_TEST

/* ---- the upgrade ----------------------------------------------------------------------------- */

#define UPGRADE "HTTP/1.1 101 Switching Protocols\r\n"
#define BOTH	"Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
#define ANSWER	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

static const struct {
	const char *head, *why;
} upgrades[] = {
	{ UPGRADE BOTH "\r\n", "answers another" },
	{ UPGRADE BOTH ANSWER "\r\n", "answers another" },
	{ UPGRADE ANSWER "\r\n", "not asked" },
	{ UPGRADE "Upgrade: websocket\r\n" ANSWER "\r\n", "not asked" },
	{ UPGRADE "Connection: upgrade\r\n" ANSWER "\r\n", "not asked" },
	{ UPGRADE "Upgrade: h2c\r\nConnection: upgrade\r\n" ANSWER "\r\n", "not asked" },
	{ UPGRADE BOTH ANSWER "Sec-WebSocket-Protocol: chat\r\n\r\n", "not asked" },
	{ UPGRADE BOTH ANSWER "sec-websocket-extensions: permessage-deflate\r\n\r\n", "not asked" },
	{ UPGRADE BOTH ANSWER ANSWER "\r\n", "two handshakes" },
};

START_TEST(an_upgrade_to_what_was_not_asked_for_is_refused)
{
	struct caisson_client client = { .namespace = (char *)(uintptr_t) "default",
		.target = { .authority = (char *)(uintptr_t) "gateway" } };
	struct said t;

	said_init(&t);
	t.w.client = &client;
	buf_add(&t.ch.in, upgrades[_i].head, strlen(upgrades[_i].head));
	ck_assert_int_eq(web_ops.greet(&t.w, "shell", "s-1", &error), -1);
	ck_assert_str_eq(error.code, "protocol");
	ck_assert_msg(strstr(error.message, upgrades[_i].why) != NULL, "%s", error.message);
	ck_assert(!t.w.upgraded);
	said_finish(&t);
}
END_TEST

/* ---- names and texts -------------------------------------------------------------------------- */

static const char *const no_parts[] = { "", ".", "..", "a/b", "a\\b", "a?b", "a#b", "a\r\nb",
	"a\tb", "\x7f", "\xff", "\xc3", "\xe2\x80\xae", "/", "../x" };

START_TEST(what_is_no_part_of_a_path_is_not_made_one)
{
	struct caisson_options options = { .target = "http://127.0.0.1:9",
		.namespace_name = no_parts[_i] };
	struct call calls[] = {
		{ .verb = VERB_LIST, .runtime = no_parts[_i] },
		{ .verb = VERB_SHOW, .runtime = "shell", .session = no_parts[_i] },
		{ .verb = VERB_OPERATION, .runtime = "shell", .session = "s-1", .operation = no_parts[_i] },
	};
	struct buf answer = { 0 };
	struct said t;

	ck_assert_ptr_null(caisson_client_create(&options, &error));
	ck_assert_str_eq(error.code, "usage");
	said_init(&t);
	for (size_t i = 0; i < countof(calls); i++) {
		error = (struct caisson_error){ 0 };
		ck_assert_int_eq(web_ops.call(&t.w, &calls[i], &answer, &error), -1);
		ck_assert_str_eq(error.code, "usage");
	}
	ck_assert_int_eq(web_ops.greet(&t.w, "shell", no_parts[_i], &error), -1);
	ck_assert_str_eq(error.code, "usage");
	ck_assert_uint_eq(t.ch.out.n, 0);
	said_finish(&t);
}
END_TEST

START_TEST(a_name_with_blanks_or_letters_of_any_kind_is_one_part)
{
	ck_assert(wire_is_part("acme.summarizer"));
	ck_assert(wire_is_part("she ll%2F"));
	ck_assert(wire_is_part("\xc3\xa9"));
	ck_assert(wire_is_part("..."));
	ck_assert(!wire_is_part(NULL));
}
END_TEST

START_TEST(what_the_other_end_says_is_one_line_that_no_terminal_obeys)
{
	char longer[2000];

	error_set(&error, "a\nb\x1b[0m", "x\r\ny\x1b[31mz\xffw\xe2\x80\xae.");
	ck_assert_str_eq(error.code, "a_b__0m");
	ck_assert_str_eq(error.message, "x\\x0d\\x0ay\\x1b[31mz\\xffw\\xe2\\x80\\xae.");
	memset(longer, 'x', sizeof longer);
	for (size_t i = 0; i + 1 < sizeof longer; i += 2)
		memcpy(longer + i, "\xc3\xa9", 2);
	longer[sizeof longer - 1] = '\0';
	error_set(&error, "internal", "%s", longer);
	ck_assert_uint_eq(strlen(error.message), 1022);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libcaisson_session");
	TCase *t = tcase_create("said");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(
	    t, a_hole_or_a_repeat_is_the_end_of_the_connection, 0, countof(orders));
	tcase_add_test(t, nothing_comes_behind_the_end);
	tcase_add_test(t, a_cancellation_that_came_too_late_ends_nothing);
	tcase_add_test(t, a_refusal_behind_a_late_cancellation_is_of_what_was_sent_next);
	tcase_add_test(t, a_cancellation_that_nobody_asked_for_is_not_believed);
	tcase_add_loop_test(
	    t, an_upgrade_to_what_was_not_asked_for_is_refused, 0, countof(upgrades));
	tcase_add_loop_test(t, what_is_no_part_of_a_path_is_not_made_one, 0, countof(no_parts));
	tcase_add_test(t, a_name_with_blanks_or_letters_of_any_kind_is_one_part);
	tcase_add_test(t, what_the_other_end_says_is_one_line_that_no_terminal_obeys);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
