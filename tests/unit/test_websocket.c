/* Frames and messages of RFC 6455: every violation and its code, and what must be taken. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "gateway/websocket.h"
#include "gateway/wsframe.h"

#define MAX 70000 /* bytes of a message */

/* Bytes in a block of their own size, so that a sanitizer sees its end. */
static int
read_frame(const void *p, size_t n, struct wsframe *ret, size_t *ret_used, unsigned *ret_code,
    uint8_t **ret_block)
{
	*ret_block = malloc(n + !n);
	ck_assert_ptr_nonnull(*ret_block);
	memcpy(*ret_block, p, n);
	return wsframe_read(*ret_block, n, MAX, ret, ret_used, ret_code);
}

/* Appends a client's frame. */
static void
put_masked(struct buf *b, unsigned first, const void *payload, size_t n)
{
	static const uint8_t mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
	struct buf plain = { 0 };

	wsframe_put(&plain, WSHEAD_TEXT, (struct slice){ payload, n });
	plain.p[0] = (uint8_t)first;
	plain.p[1] |= 0x80;
	buf_add(b, plain.p, plain.n - n);
	buf_add(b, mask, 4);
	for (size_t i = 0; i < n; i++)
		buf_add(b, &(uint8_t){ plain.p[plain.n - n + i] ^ mask[i % 4] }, 1);
	buf_finish(&plain);
}

/* ---- frames ----------------------------------------------------------------------------- */

static const struct {
	const char *bytes;
	size_t n;
	unsigned code; /* 0: not whole, and not wrong yet */
	const char *why;
} heads[] = {
#define B(bytes) bytes, sizeof(bytes) - 1
	{ B("\x81\x00"), WS_PROTOCOL, "not masked" },
	{ B("\x81\x05hello"), WS_PROTOCOL, "not masked" },
	{ B("\xc1\x80"), WS_PROTOCOL, "RSV1, which no extension of ours means" },
	{ B("\xa1\x80"), WS_PROTOCOL, "RSV2" },
	{ B("\x91\x80"), WS_PROTOCOL, "RSV3" },
	{ B("\x83\x80"), WS_PROTOCOL, "opcode 3" },
	{ B("\x87\x80"), WS_PROTOCOL, "opcode 7" },
	{ B("\x8b\x80"), WS_PROTOCOL, "opcode 11" },
	{ B("\x8f\x80"), WS_PROTOCOL, "opcode 15" },
	{ B("\x08\x80"), WS_PROTOCOL, "a close in fragments" },
	{ B("\x09\x80"), WS_PROTOCOL, "a ping in fragments" },
	{ B("\x0a\x80"), WS_PROTOCOL, "a pong in fragments" },
	{ B("\x88\xfe"), WS_PROTOCOL, "a close of more than 125 bytes" },
	{ B("\x89\xfe"), WS_PROTOCOL, "a ping of more than 125 bytes" },
	{ B("\x8a\xff"), WS_PROTOCOL, "a pong of more than 125 bytes" },
	{ B("\x81\xfe\x00\x7d"), WS_PROTOCOL, "125 in two bytes" },
	{ B("\x81\xff\0\0\0\0\0\0\xff\xff"), WS_PROTOCOL, "65535 in eight bytes" },
	{ B("\x81\xff\x80\0\0\0\0\0\0\0"), WS_PROTOCOL, "the highest bit of a length" },
	{ B("\x81\xff\0\0\0\0\0\x01\x11\x71"), WS_TOO_BIG, "70001 bytes, before they come" },
	{ B("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff"), WS_TOO_BIG, "2^63-1 bytes" },
	{ B(""), 0, "nothing" },
	{ B("\x81"), 0, "half a head" },
	{ B("\x81\xfe\x00"), 0, "half a length" },
	{ B("\x81\xff\0\0\0\0\0\x01\x11"), 0, "half a length" },
	{ B("\x81\x81\1\2\3\4"), 0, "no payload yet" },
#undef B
};

START_TEST(a_head_is_judged_when_it_is_there)
{
	struct wsframe f;
	unsigned code = 0;
	uint8_t *block;
	size_t used;
	int r = read_frame(heads[_i].bytes, heads[_i].n, &f, &used, &code, &block);

	ck_assert_msg(r == (heads[_i].code != 0 ? -EPROTO : 0), "%s: %d", heads[_i].why, r);
	ck_assert_msg(code == heads[_i].code, "%s: %u", heads[_i].why, code);
	free(block);
}
END_TEST

static const size_t sizes[] = { 0, 1, 3, 15, 16, 17, 125, 126, 127, 65535, 65536, MAX };

START_TEST(frames_of_every_size_are_unmasked)
{
	size_t n = sizes[_i], used;
	cleanup_free uint8_t *payload = malloc(n + 1);
	struct buf b = { 0 };
	struct wsframe f;
	unsigned code;
	uint8_t *block;

	for (size_t i = 0; i < n; i++)
		payload[i] = (uint8_t)(i * 7 + i / 256);
	put_masked(&b, 0x81, payload, n);
	ck_assert_int_eq(read_frame(b.p, b.n - 1, &f, &used, &code, &block), 0);
	free(block);
	buf_add(&b, "next", 4);
	ck_assert_int_eq(read_frame(b.p, b.n, &f, &used, &code, &block), 1);
	ck_assert_uint_eq(used, b.n - 4);
	ck_assert_uint_eq(f.payload.n, n);
	ck_assert(n == 0 || memcmp(f.payload.p, payload, n) == 0);
	ck_assert(f.last && f.type == WSHEAD_TEXT);
	free(block);
	buf_finish(&b);
}
END_TEST

/* ---- messages ---------------------------------------------------------------------------- */

#define T  WSHEAD_TEXT
#define C  WSHEAD_CONTINUATION
#define BN WSHEAD_BINARY

static const struct {
	const char *why;
	struct {
		enum wshead_type type;
		bool last;
		const char *text;
	} frames[4];
	const char *message; /* NULL: a fault with `code` at the last frame */
	unsigned code;
} messages[] = {
	{ "one frame", { { T, true, "abc" } }, "abc", 0 },
	{ "an empty one", { { T, true, "" } }, "", 0 },
	{ "three fragments", { { T, false, "a" }, { C, false, "b" }, { C, true, "c" } }, "abc", 0 },
	{ "empty fragments", { { T, false, "" }, { C, false, "" }, { C, true, "" } }, "", 0 },
	{ "a character in two fragments", { { T, false, "\xe2\x82" }, { C, true, "\xac" } },
	    "\xe2\x82\xac", 0 },
	{ "a character byte by byte",
	    { { T, false, "\xf0" }, { C, false, "\x9f" }, { C, false, "\x98" },
		{ C, true, "\x80" } },
	    "\xf0\x9f\x98\x80", 0 },
	{ "binary", { { BN, true, "a" } }, NULL, WS_POLICY },
	{ "binary in fragments", { { BN, false, "a" } }, NULL, WS_POLICY },
	{ "a continuation of nothing", { { C, true, "a" } }, NULL, WS_PROTOCOL },
	{ "a fragment that continues nothing", { { C, false, "a" } }, NULL, WS_PROTOCOL },
	{ "a text within a message", { { T, false, "a" }, { T, true, "b" } }, NULL, WS_PROTOCOL },
	{ "a continuation behind the end",
	    { { T, false, "a" }, { C, true, "b" }, { C, true, "c" } }, NULL, WS_PROTOCOL },
	{ "no UTF-8", { { T, true, "\xff" } }, NULL, WS_NOT_TEXT },
	{ "half a character", { { T, true, "\xe2\x82" } }, NULL, WS_NOT_TEXT },
	{ "overlong", { { T, true, "\xc0\x80" } }, NULL, WS_NOT_TEXT },
	{ "a surrogate", { { T, true, "\xed\xa0\x80" } }, NULL, WS_NOT_TEXT },
	{ "beyond Unicode", { { T, true, "\xf4\x90\x80\x80" } }, NULL, WS_NOT_TEXT },
	{ "no UTF-8 in the first fragment, said at once", { { T, false, "\xff" } }, NULL,
	    WS_NOT_TEXT },
	{ "a character that is not gone on with", { { T, false, "\xe2\x82" }, { C, false, "a" } },
	    NULL, WS_NOT_TEXT },
	{ "half a character at the end", { { T, false, "a" }, { C, true, "\xe2" } }, NULL,
	    WS_NOT_TEXT },
};

START_TEST(messages_are_joined_and_checked)
{
	struct wsmessage m = { 0 };
	struct slice text = { NULL, 0 };
	unsigned code = 0;
	int r = 0;

	for (size_t i = 0; i < countof(messages[_i].frames); i++) {
		const char *payload = messages[_i].frames[i].text;
		struct wsframe f = { messages[_i].frames[i].type, messages[_i].frames[i].last,
			{ NULL, 0 } };

		if (payload == NULL)
			break;
		ck_assert_msg(r >= 0, "%s: before its last frame", messages[_i].why);
		f.payload = slice_of(payload);
		r = wsmessage_add(&m, &f, MAX, &text, &code);
	}
	ck_assert_msg(r == (messages[_i].message != NULL ? 1 : -EPROTO), "%s", messages[_i].why);
	ck_assert_msg(code == messages[_i].code, "%s: %u", messages[_i].why, code);
	if (messages[_i].message != NULL)
		ck_assert(slice_is(text, messages[_i].message));
	wsmessage_finish(&m);
}
END_TEST

START_TEST(fragments_have_the_bound_of_a_message)
{
	cleanup_free uint8_t *half = calloc(1, MAX / 2);
	struct wsframe f = { WSHEAD_TEXT, false, { half, MAX / 2 } };
	struct wsmessage m = { 0 };
	struct slice text;
	unsigned code = 0;

	memset(half, 'a', MAX / 2);
	ck_assert_int_eq(wsmessage_add(&m, &f, MAX, &text, &code), 0);
	f.type = WSHEAD_CONTINUATION;
	ck_assert_int_eq(wsmessage_add(&m, &f, MAX, &text, &code), 0);
	f = (struct wsframe){ WSHEAD_CONTINUATION, true, slice_of("a") };
	ck_assert_int_eq(wsmessage_add(&m, &f, MAX, &text, &code), -EPROTO);
	ck_assert_uint_eq(code, WS_TOO_BIG);
	wsmessage_finish(&m);
}
END_TEST

/* ---- the closing handshake, and ours ----------------------------------------------------- */

static const struct {
	const char *payload;
	size_t n;
	unsigned code;
	bool fault;
} closes[] = {
#define B(bytes) bytes, sizeof(bytes) - 1
	{ B(""), WS_NO_STATUS, false },
	{ B("\x03\xe8"), 1000, false },
	{ B("\x03\xe8 bye \xe2\x82\xac"), 1000, false },
	{ B("\x03\xeb"), 1003, false },
	{ B("\x03\xef"), 1007, false },
	{ B("\x03\xf3"), 1011, false },
	{ B("\x0b\xb8"), 3000, false },
	{ B("\x13\x87"), 4999, false },
	{ B("\x03"), WS_PROTOCOL, true }, /* one byte */
	{ B("\x00\x00"), WS_PROTOCOL, true },
	{ B("\x03\xe7"), WS_PROTOCOL, true }, /* 999 */
	{ B("\x03\xec"), WS_PROTOCOL, true }, /* 1004 */
	{ B("\x03\xed"), WS_PROTOCOL, true }, /* 1005: never on the wire */
	{ B("\x03\xee"), WS_PROTOCOL, true }, /* 1006: never on the wire */
	{ B("\x03\xf7"), WS_PROTOCOL, true }, /* 1015: never on the wire */
	{ B("\x04\x4c"), WS_PROTOCOL, true }, /* 1100 */
	{ B("\x0b\xb7"), WS_PROTOCOL, true }, /* 2999 */
	{ B("\x13\x88"), WS_PROTOCOL, true }, /* 5000 */
	{ B("\xff\xff"), WS_PROTOCOL, true },
	{ B("\x03\xe8\xff"), WS_NOT_TEXT, true },
#undef B
};

START_TEST(a_close_says_a_code_that_may_be_said)
{
	bool fault;

	ck_assert_uint_eq(wsframe_close_code(
	    (struct slice){ (const uint8_t *)closes[_i].payload, closes[_i].n }, &fault),
	    closes[_i].code);
	ck_assert_uint_eq(fault, closes[_i].fault);
}
END_TEST

START_TEST(a_reason_is_cut_at_a_whole_character)
{
	char reason[200];
	struct buf b = { 0 };

	memset(reason, 'a', sizeof(reason));
	memcpy(reason + WS_REASON_MAX - 1, "\xe2\x82\xac", 3);
	reason[sizeof(reason) - 1] = '\0';
	wsframe_put_close(&b, WS_POLICY, slice_of(reason));
	ck_assert_uint_eq(b.n, 2 + 2 + WS_REASON_MAX - 1);
	ck_assert(memcmp(b.p, "\x88\x7c\x03\xf0", 4) == 0);
	buf_finish(&b);
	wsframe_put_close(&b, WS_NO_STATUS, (struct slice){ NULL, 0 });
	ck_assert_uint_eq(b.n, 2);
	buf_finish(&b);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("websocket");
	TCase *tc = tcase_create("websocket");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, a_head_is_judged_when_it_is_there, 0, countof(heads));
	tcase_add_loop_test(tc, frames_of_every_size_are_unmasked, 0, countof(sizes));
	tcase_add_loop_test(tc, messages_are_joined_and_checked, 0, countof(messages));
	tcase_add_test(tc, fragments_have_the_bound_of_a_message);
	tcase_add_loop_test(tc, a_close_says_a_code_that_may_be_said, 0, countof(closes));
	tcase_add_test(tc, a_reason_is_cut_at_a_whole_character);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
