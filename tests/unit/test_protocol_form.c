/* The form of messages, whatever their row, and how they are written.  D-5. */
#include <check.h>
#include <errno.h>

#include "common/util.h"
#include "sample.h"

/* ---- the form of a message ------------------------------------------------------------- */

/* To a broker in LINK_NEW from a worker, with hello open as request 7 of the broker's. */
static const struct {
	const char *bytes;
	size_t n;
	const char *rule;
} shapes[] = {
#define SHAPE(text, rule) { text, sizeof(text) - 1, rule }
	SHAPE("\xc0", "not a message"),
	SHAPE("\x80", "not a message"),
	SHAPE("\x90", "not a message"),
	SHAPE("\x92\x02\xa5hello", "not a message"),
	SHAPE("\x95\x00\x07\xa5hello\x91\x81\xa8protocol\x01\xc0", "not a message"),
	SHAPE("\x94\x03\x07\xa5hello\x90", "not a message"),
	SHAPE("\x94\xff\x07\xa5hello\x90", "not a message"),
	SHAPE("\x94\xa0\x07\xa5hello\x90", "not a message"),
	SHAPE("\x94\x02\xa5hello\x91\x80\xc0", "not a message"),
	SHAPE("\x93\x00\xa5hello\x91\x80", "not a message"),
	SHAPE("\x93\x01\x07\xc0", "not a message"),
	SHAPE("\x94\x00\xff\xa5hello\x91\x80", "message id is not 32 bits"),
	SHAPE("\x94\x00\xa1x\xa5hello\x91\x80", "message id is not 32 bits"),
	SHAPE("\x94\x00\xcf\0\0\0\1\0\0\0\0\xa5hello\x91\x80", "message id is not 32 bits"),
	SHAPE("\x94\x01\xc0\xc0\x80", "message id is not 32 bits"),
	SHAPE("\x94\x00\x07\xc4\x05hello\x91\x80", "method is not a string"),
	SHAPE("\x94\x00\x07\x01\x91\x80", "method is not a string"),
	SHAPE("\x94\x00\x07\xa0\x91\x80", "unknown method"),
	SHAPE("\x94\x00\x07\xa4hell\x91\x80", "unknown method"),
	SHAPE("\x94\x00\x07\xa5hellO\x91\x80", "unknown method"),
	SHAPE("\x94\x00\x07\xa6hello\0\x91\x80", "unknown method"),
	SHAPE("\x93\x02\xa5hello\x91\x80", "request and notification exchanged"),
	SHAPE("\x94\x00\x07\xacoutput.write\x91\x80", "request and notification exchanged"),
	SHAPE("\x94\x00\x07\xa5hello\x90", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\x92\x80\x80", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\x80", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\xc0", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\x91\xc0", "fields are not a map"),
	SHAPE("\x94\x00\x07\xa5hello\x91\x90", "fields are not a map"),
	SHAPE("\x94\x00\x07\xa5hello\x91\x80", "missing field"),
	SHAPE("\x94\x00\x07\xa5hello\x91\x81\xa8protocol\x01", NULL),
	SHAPE("\x94\x01\x08\xc0\x80", "reply to nothing"),
	SHAPE("\x94\x01\x07\xc0\xc0", "wrong direction"),
};

START_TEST(the_form_of_a_message_is_checked_first)
{
	enum msg_type type = MSG_hello_reply;
	struct fault fault = { 0 };
	struct message m;
	int r = protocol_decode((const uint8_t *)shapes[_i].bytes, shapes[_i].n, ROLE_WORKER,
	    ROLE_BROKER, LINK_NEW, sample_pending, &type, &m, &fault);

	if (shapes[_i].rule == NULL) {
		ck_assert_int_eq(r, 0);
	} else {
		ck_assert_int_eq(r, -EPROTO);
		ck_assert_str_eq(fault.rule, shapes[_i].rule);
	}
}
END_TEST

/* From a broker to a worker that has tool.invoke open as request 7. */
static const struct {
	const char *bytes;
	size_t n;
	const char *rule;
} replies[] = {
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa1x\xa7message\xa0\xc0", NULL),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa9retryable\xc3\xc0", NULL),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa7" "details\x80\xc0", NULL),
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa1x\xa7message\xa0\x80", "error and result"),
	SHAPE("\x94\x01\x07\xa1x\xc0", "error is not a map"),
	SHAPE("\x94\x01\x07\x01\xc0", "error is not a map"),
	SHAPE("\x94\x01\x07\x80\xc0", "error without code or message"),
	SHAPE("\x94\x01\x07\x81\xa4" "code\xa1x\xc0", "error without code or message"),
	SHAPE("\x94\x01\x07\x81\xa7message\xa0\xc0", "error without code or message"),
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa0\xa7message\xa0\xc0", "code of an error"),
	SHAPE("\x94\x01\x07\x82\xa4" "code\x01\xa7message\xa0\xc0", "code of an error"),
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa1x\xa7message\xc0\xc0", "message of an error"),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa9retryable\x01\xc0",
	    "retryable of an error"),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa4what\x01\xc0",
	    "unknown field of an error"),
	SHAPE("\x94\x01\x07\xc0\xc0", "fields are not a map"),
	SHAPE("\x94\x01\x07\xc0\x80", "missing field"),
	SHAPE("\x94\x01\x09\xc0\x80", "reply to nothing"),
};

START_TEST(a_response_is_an_error_or_a_result)
{
	enum msg_type type = MSG_tool_invoke_reply;
	struct fault fault = { 0 };
	struct message m;
	int r = protocol_decode((const uint8_t *)replies[_i].bytes, replies[_i].n, ROLE_BROKER,
	    ROLE_WORKER, LINK_BUSY, sample_pending, &type, &m, &fault);

	if (replies[_i].rule == NULL) {
		ck_assert_int_eq(r, 0);
		ck_assert(m.failed);
		ck_assert(slice_is(m.error.code, "x"));
		ck_assert_int_eq(m.type, MSG_tool_invoke_reply);
	} else {
		ck_assert_int_eq(r, -EPROTO);
		ck_assert_str_eq(fault.rule, replies[_i].rule);
	}
}
END_TEST

START_TEST(without_open_requests_every_response_is_a_fault)
{
	static const uint8_t reply[] = { 0x94, 1, 7, 0xc0, 0x80 };
	struct fault fault = { 0 };
	struct message m;

	ck_assert_int_eq(protocol_decode(reply, sizeof reply, ROLE_BROKER, ROLE_WORKER,
			     LINK_BUSY, NULL, NULL, &m, &fault),
	    -EPROTO);
	ck_assert_str_eq(fault.rule, "reply to nothing");
}
END_TEST

START_TEST(a_fault_names_the_rule_the_method_and_the_field)
{
	const struct msg_desc *desc = protocol_desc(MSG_tool_invoke);
	struct sample_override o = { &desc->fields[1], { (const uint8_t *)"\x01", 1 } };
	struct fault fault = { 0 };
	struct buf b = { 0 };
	struct message m;

	sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
	ck_assert_int_eq(sample_decode(&b, desc, &m, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "wrong type");
	ck_assert_str_eq(fault.method, "tool.invoke");
	ck_assert_str_eq(fault.field, "id");
	ck_assert_uint_eq(b.p[fault.offset], 0x01);
	buf_finish(&b);
}
END_TEST

START_TEST(a_frame_over_the_maximum_is_a_fault)
{
	struct buf b = { 0 };
	struct fault fault = { 0 };
	struct message m;

	sample_bin(&b, FRAME_MAX - 8);
	buf_add(&b, "padding!", 8);
	ck_assert_int_eq(protocol_decode(b.p, b.n, ROLE_WORKER, ROLE_BROKER, LINK_BUSY, NULL,
	    NULL, &m, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "frame too long");
	buf_finish(&b);
}
END_TEST

/* ---- writing -------------------------------------------------------------------------- */

static struct msg_tool_invoke
good_invoke(void)
{
	static const uint8_t empty_map[] = { 0x80 };

	return (struct msg_tool_invoke){
		.operation = slice_of("op"),
		.id = slice_of("1"),
		.tool = slice_of("files.read"),
		.arguments = { empty_map, 1 },
	};
}

/* Writes behind something that must stay as it is. */
static void
assert_refused(enum msg_type type, const void *m)
{
	struct buf out = { 0 };

	buf_add(&out, "before", 6);
	ck_assert_int_eq(protocol_request(&out, type, 1, m), -ERANGE);
	ck_assert_uint_eq(out.n, 6);
	ck_assert_mem_eq(out.p, "before", 6);
	ck_assert(!out.failed);
	buf_finish(&out);
}

START_TEST(what_would_be_a_fault_is_not_written)
{
	static const uint8_t array[] = { 0x90 };
	static char longest[ARGUMENTS_MAX + 8];
	struct msg_tool_invoke m;
	struct msg_operation_signal sig = { .operation = slice_of("op"), .signo = 65 };
	struct msg_operation_submit submit = { .kind = (enum operation_kind)7 };

	m = good_invoke();
	m.operation.n = 0;
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.id = (struct slice) { (const uint8_t *)longest, 257 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.tool = slice_of("\xff");
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.arguments = (struct slice) { NULL, 0 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.arguments = (struct slice) { array, 1 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.arguments = (struct slice) { (const uint8_t *)longest, ARGUMENTS_MAX + 1 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.has_step = true;
	m.step = (uint64_t)UINT32_MAX + 1;
	assert_refused(MSG_tool_invoke, &m);
	assert_refused(MSG_operation_signal, &sig);
	assert_refused(MSG_operation_submit, &submit);
}
END_TEST

START_TEST(the_kind_of_a_row_decides_how_it_is_written)
{
	struct msg_tool_invoke m = good_invoke();
	struct buf out = { 0 };

	ck_assert_int_eq(protocol_notify(&out, MSG_tool_invoke, &m), -ERANGE);
	ck_assert_int_eq(protocol_reply(&out, MSG_tool_invoke, 1, &m), -ERANGE);
	ck_assert_int_eq(protocol_request(&out, MSG_turn_annotate_reply, 1, &m), -ERANGE);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(protocol_request(&out, MSG_tool_invoke, 1, &m), 0);
	buf_finish(&out);
}
END_TEST

START_TEST(a_frame_that_would_be_too_long_is_not_written)
{
	struct buf value = { 0 }, map = { 0 }, list = { 0 }, out = { 0 };
	struct msg_operation_run m = {
		.operation = slice_of("op"),
		.executionId = slice_of("e"),
		.agent = slice_of("a:b"),
	};

	sample_filler(&value, ARGUMENTS_MAX);
	pack_array(&list, 1);
	sample_filler(&list, CATALOGUE_MAX - 1);
	pack_map(&map, 1);
	pack_str(&map, "k");
	sample_filler(&map, ARGUMENTS_MAX - 3);
	m.message = (struct slice) { value.p, value.n };
	m.tools = (struct slice) { list.p, list.n };
	m.context = (struct slice) { map.p, map.n };
	ck_assert_int_eq(protocol_request(&out, MSG_operation_run, 1, &m), -ERANGE);
	ck_assert_uint_eq(out.n, 0);
	buf_finish(&value);
	buf_finish(&map);
	buf_finish(&list);
	buf_finish(&out);
}
END_TEST

START_TEST(a_refusal_reads_back)
{
	enum msg_type type = MSG_tool_invoke_reply;
	struct buf out = { 0 };
	struct fault fault;
	struct message m;

	ck_assert_int_eq(protocol_refuse(&out, 7, "turn_draining", "the turn drains", true), 0);
	ck_assert_int_eq(protocol_decode(out.p + 4, out.n - 4, ROLE_BROKER, ROLE_WORKER,
			     LINK_BUSY, sample_pending, &type, &m, &fault),
	    0);
	ck_assert(m.failed && m.error.retryable);
	ck_assert(slice_is(m.error.code, "turn_draining"));
	ck_assert(slice_is(m.error.message, "the turn drains"));
	ck_assert_int_eq(protocol_refuse(&out, 7, "", "no code", true), -ERANGE);
	ck_assert_int_eq(protocol_refuse(&out, 7, "code", "\xc3", true), -ERANGE);
	buf_finish(&out);
}
END_TEST

/* What is packed once for many maps reads like what is packed for each. */
START_TEST(fields_in_common_are_part_of_the_map)
{
	struct msg_record some = { .has_trace = true, .trace = slice_of("t"),
		.has_bytes = true, .bytes = 300 };
	struct msg_record rest = { .id = slice_of("i"), .type = slice_of("y"), .at = 7,
		.has_outcome = true, .outcome = record_outcome_denied };
	struct fields common = { 0 };
	struct fault fault = { 0 };
	struct msg_record r;
	struct buf map = { 0 };

	ck_assert_int_eq(protocol_pack_fields(&common, MSG_record, &some), 0);
	ck_assert_uint_eq(common.n, 2);
	ck_assert_int_eq(protocol_pack_with(&map, MSG_record, &common, &rest), 0);
	ck_assert_int_eq(protocol_unpack(map.p, map.n, MSG_record, &r, &fault), 0);
	ck_assert(slice_is(r.id, "i") && slice_is(r.type, "y") && r.at == 7);
	ck_assert(r.has_outcome && r.outcome == record_outcome_denied);
	ck_assert(r.has_trace && slice_is(r.trace, "t") && r.has_bytes && r.bytes == 300);
	ck_assert(!r.has_call && !r.has_operation);

	/* Outside its range is an error of the whole, and nothing is added. */
	some.trace.n = 0;
	ck_assert_int_eq(protocol_pack_fields(&common, MSG_record, &some), -ERANGE);
	ck_assert_uint_eq(common.n, 2);
	buf_finish(&common.packed);
	buf_finish(&map);
}
END_TEST

/* ---- the table ------------------------------------------------------------------------- */

/* An event whose data nests `depth` deep and holds `nodes` values beside. */
static const char *
event_rule(unsigned depth, uint32_t nodes)
{
	struct buf data = { 0 }, frame = { 0 };
	struct msg_event_emit m = { .operation = slice_of("op"), .type = slice_of("t") };
	struct fault fault = { 0 };
	struct message got;
	unsigned i;

	for (i = 1; i < depth; i++)
		pack_array(&data, 1);
	pack_array(&data, nodes);
	while (nodes-- > 0)
		pack_nil(&data);
	m.data = (struct slice){ data.p, data.n };
	ck_assert_int_eq(protocol_request(&frame, MSG_event_emit, 1, &m), 0);
	protocol_decode(frame.p + 4, frame.n - 4, ROLE_WORKER, ROLE_BROKER, LINK_BUSY, NULL, NULL,
	    &got, &fault);
	buf_finish(&data);
	buf_finish(&frame);
	return fault.rule;
}

/* What the broker passes on wrapped must be no fault at whoever gets it. */
START_TEST(a_value_to_the_broker_leaves_room_for_its_wrapping)
{
	ck_assert_ptr_null(event_rule(PAYLOAD_DEPTH_MAX, 1));
	ck_assert_str_eq(
	    event_rule(PAYLOAD_DEPTH_MAX + 1, 0), "value nested too deep to be passed on");
	ck_assert_ptr_null(event_rule(1, PAYLOAD_NODES_MAX - 1));
	ck_assert_str_eq(event_rule(1, PAYLOAD_NODES_MAX), "too many values to be passed on");
	ck_assert_str_eq(
	    event_rule(2, PAYLOAD_NODES_MAX - 1), "too many values to be passed on");
}
END_TEST

START_TEST(a_name_with_a_nul_in_it_is_a_fault)
{
	struct msg_hello m = { .protocol = 1, .has_name = true, .name = { (const uint8_t *)"a\0b", 3 } };
	struct buf frame = { 0 };
	struct fault fault = { 0 };
	struct message got;

	ck_assert_int_eq(protocol_request(&frame, MSG_hello, 1, &m), 0);
	ck_assert_int_eq(protocol_decode(frame.p + 4, frame.n - 4, ROLE_WORKER, ROLE_BROKER,
			     LINK_NEW, NULL, NULL, &got, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "holds a NUL");
	buf_finish(&frame);
}
END_TEST

START_TEST(the_form_on_the_wire_is_the_one_that_is_documented)
{
	/* The example of docs/PROTOCOL.md. */
	static const char hello[] =
	    "\x00\x00\x00\x1e\x94\x00\x01\xa5hello\x91\x82\xa8protocol\x01"
	    "\xa4name\xa3"
	    "bot";
	struct msg_hello m = { .protocol = 1, .has_name = true, .name = slice_of("bot") };
	struct buf out = { 0 };

	ck_assert_int_eq(protocol_request(&out, MSG_hello, 1, &m), 0);
	ck_assert_uint_eq(out.n, sizeof hello - 1);
	ck_assert_mem_eq(out.p, hello, sizeof hello - 1);
	buf_finish(&out);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("protocol_form");
	TCase *form = tcase_create("form");
	TCase *write = tcase_create("write");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(
	    form, the_form_of_a_message_is_checked_first, 0, (int)countof(shapes));
	tcase_add_loop_test(form, a_response_is_an_error_or_a_result, 0, (int)countof(replies));
	tcase_add_test(form, without_open_requests_every_response_is_a_fault);
	tcase_add_test(form, a_fault_names_the_rule_the_method_and_the_field);
	tcase_add_test(form, a_frame_over_the_maximum_is_a_fault);
	tcase_add_test(form, a_value_to_the_broker_leaves_room_for_its_wrapping);
	tcase_add_test(form, a_name_with_a_nul_in_it_is_a_fault);
	tcase_add_test(write, fields_in_common_are_part_of_the_map);
	tcase_add_test(write, what_would_be_a_fault_is_not_written);
	tcase_add_test(write, the_kind_of_a_row_decides_how_it_is_written);
	tcase_add_test(write, a_frame_that_would_be_too_long_is_not_written);
	tcase_add_test(write, a_refusal_reads_back);
	tcase_add_test(write, the_form_on_the_wire_is_the_one_that_is_documented);
	suite_add_tcase(s, form);
	suite_add_tcase(s, write);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
