/* Heads of frames of RFC 6455 as both sides write them, every violation, and the key's answer. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "common/wshead.h"

static const uint8_t mask[WSHEAD_MASK] = { 0x37, 0xfa, 0x21, 0x3d };

/* Bytes in a block of their own size, so that a sanitizer sees its end. */
static int
read_head(const void *p, size_t n, bool masked, struct wshead *ret)
{
	uint8_t *block = malloc(n + !n);
	int r;

	ck_assert_ptr_nonnull(block);
	memcpy(block, p, n);
	r = wshead_read(block, n, masked, ret);
	free(block);
	return r;
}

static const struct {
	uint64_t payload;
	size_t head; /* without a mask */
} lengths[] = {
	{ 0, 2 }, { 1, 2 }, { 125, 2 }, { 126, 4 }, { 127, 4 }, { 65535, 4 }, { 65536, 10 },
	{ INT64_MAX, 10 },
};

START_TEST(what_is_written_is_read_whole_or_not_yet)
{
	for (int masked = 0; masked < 2; masked++) {
		size_t length = lengths[_i].head, whole = length + (masked ? WSHEAD_MASK : 0);
		uint8_t head[WSHEAD_MAX];
		struct wshead h;

		ck_assert_uint_eq(wshead_write(WSHEAD_TEXT, masked ? mask : NULL,
		    lengths[_i].payload, head), whole);
		for (size_t n = 0; n < length; n++)
			ck_assert_int_eq(read_head(head, n, masked, &h), 0);
		ck_assert_int_eq(read_head(head, length, masked, &h), 1);
		ck_assert_uint_eq(h.payload_bytes, lengths[_i].payload);
		ck_assert_uint_eq(h.bytes, whole);
		ck_assert(h.last && h.type == WSHEAD_TEXT);
		ck_assert(!masked || memcmp(head + length, mask, WSHEAD_MASK) == 0);
		ck_assert_int_eq(read_head(head, length, !masked, &h), -EPROTO);
	}
}
END_TEST

START_TEST(the_parts_of_a_head_are_told)
{
	struct wshead h;

	ck_assert_int_eq(read_head("\x01\x05", 2, false, &h), 1);
	ck_assert(h.type == WSHEAD_TEXT && !h.last && h.payload_bytes == 5 && h.bytes == 2);
	ck_assert_int_eq(read_head("\x80\x00", 2, false, &h), 1);
	ck_assert(h.type == WSHEAD_CONTINUATION && h.last && h.payload_bytes == 0);
	ck_assert_int_eq(read_head("\x8a\xfd", 2, true, &h), 1);
	ck_assert(h.type == WSHEAD_PONG && h.payload_bytes == WSHEAD_CONTROL_MAX && h.bytes == 6);
	ck_assert(wshead_is_control(WSHEAD_CLOSE) && wshead_is_control(WSHEAD_PONG));
	ck_assert(!wshead_is_control(WSHEAD_TEXT) && !wshead_is_control(WSHEAD_CONTINUATION));
}
END_TEST

static const struct {
	const char *bytes;
	size_t n;
	bool masked;
	const char *why;
} faults[] = {
#define B(bytes) bytes, sizeof(bytes) - 1
	{ B("\xc1\x00"), false, "RSV1, which no extension of ours means" },
	{ B("\xa1\x00"), false, "RSV2" },
	{ B("\x91\x00"), false, "RSV3" },
	{ B("\x83\x00"), false, "opcode 3" },
	{ B("\x87\x00"), false, "opcode 7" },
	{ B("\x8b\x00"), false, "opcode 11" },
	{ B("\x8f\x00"), false, "opcode 15" },
	{ B("\x08\x00"), false, "a close in fragments" },
	{ B("\x09\x00"), false, "a ping in fragments" },
	{ B("\x0a\x00"), false, "a pong in fragments" },
	{ B("\x89\x7e"), false, "a ping of more than 125 bytes" },
	{ B("\x88\xff"), true, "a close of more than 125 bytes" },
	{ B("\x81\x7e\x00\x7d"), false, "125 in two bytes" },
	{ B("\x81\xff\0\0\0\0\0\0\xff\xff"), true, "65535 in eight bytes" },
	{ B("\x81\x7f\x80\0\0\0\0\0\0\0"), false, "the highest bit of a length" },
	{ B("\x81\x80"), false, "a server masks" },
	{ B("\x81\x00"), true, "a client does not" },
#undef B
};

START_TEST(what_no_side_may_send_is_refused)
{
	struct wshead h;

	ck_assert_msg(read_head(faults[_i].bytes, faults[_i].n, faults[_i].masked, &h) == -EPROTO,
	    "%s", faults[_i].why);
}
END_TEST

/* The example of RFC 6455, 1.3. */
START_TEST(the_answer_to_a_key_is_that_of_the_rfc)
{
	static const char *const wrong[] = { "", "dGhlIHNhbXBsZSBub25jZQ=", "AAAA",
		"dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhbXBsZSBub25jZQAA",
		"dGhlIHNhbXBsZSBub25jZR==", "dGhlIHNhbXBsZSBub25j Q==" };
	char accept[WSHEAD_ACCEPT + 1];

	ck_assert(wshead_accept(slice_of("dGhlIHNhbXBsZSBub25jZQ=="), accept));
	ck_assert_str_eq(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	for (size_t i = 0; i < countof(wrong); i++)
		ck_assert_msg(!wshead_accept(slice_of(wrong[i]), accept), "%s", wrong[i]);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("wshead");
	TCase *tc = tcase_create("wshead");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, what_is_written_is_read_whole_or_not_yet, 0, countof(lengths));
	tcase_add_test(tc, the_parts_of_a_head_are_told);
	tcase_add_loop_test(tc, what_no_side_may_send_is_refused, 0, countof(faults));
	tcase_add_test(tc, the_answer_to_a_key_is_that_of_the_rfc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
