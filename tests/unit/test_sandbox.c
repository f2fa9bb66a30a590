/*
 * Sessions that clients acquire, as far as they are rules: who may wait, until when a lease
 * holds, and what a submission may say (OP-9 to OP-11, OP-28).
 */
#include "broker/sandbox.h"

#include <check.h>
#include <string.h>

#include "broker/payload.h"
#include "common/util.h"
#include "common/walk.h"

#define S(text) slice_of(text)

START_TEST(what_runs_does_not_wait) /* OP-9 */
{
	ck_assert(queue_has_room(0, false, 1));
	ck_assert(queue_has_room(1, false, 1)); /* the first is about to run */
	ck_assert(!queue_has_room(2, false, 1));
	ck_assert(queue_has_room(0, true, 1));
	ck_assert(!queue_has_room(1, true, 1));
	ck_assert(queue_has_room(31, true, 32));
	ck_assert(queue_has_room(UINT32_MAX, false, UINT32_MAX));
}
END_TEST

START_TEST(a_lease_ends_when_it_was_not_renewed) /* OP-28 */
{
	struct lease l = { .ms = 100 };

	lease_renew(&l, 1000);
	ck_assert(!lease_is_over(&l, 1099));
	ck_assert(lease_is_over(&l, 1100));
	lease_renew(&l, 1050);
	ck_assert(!lease_is_over(&l, 1149));
	ck_assert(lease_is_over(&l, 1150));
}
END_TEST

START_TEST(an_older_heartbeat_moves_no_lease_back) /* OP-28 */
{
	struct lease l = { .ms = 100 };

	lease_renew(&l, 1000);
	lease_renew(&l, 900);
	ck_assert_uint_eq(l.until_ms, 1100);
}
END_TEST

START_TEST(without_a_lease_nothing_is_over) /* OP-28 */
{
	struct lease l = { 0 };

	lease_renew(&l, 1000);
	ck_assert_uint_eq(l.until_ms, 0);
	ck_assert(!lease_is_over(&l, UINT64_MAX));
}
END_TEST

START_TEST(paths_stay_beneath_the_workspace)
{
	static const char *const good[] = { "a", "a/b", ".hidden", "a/...", "..a", "a b" };
	static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "./a",
		"a/..", "a/../b", "a\nb", "a/\x7f", "a/\x01" };
	char name[PATH_SEGMENT_MAX + 2], deep[2 * PATH_SEGMENTS_MAX + 2];

	for (size_t i = 0; i < countof(good); i++)
		ck_assert_msg(payload_path_fault(S(good[i])) == NULL, "%s", good[i]);
	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(payload_path_fault(S(bad[i])) != NULL, "%s", bad[i]);
	ck_assert_ptr_nonnull(payload_path_fault((struct slice){ (const uint8_t *)"a\0b", 3 }));
	memset(name, 'a', sizeof(name));
	name[PATH_SEGMENT_MAX + 1] = '\0';
	ck_assert_ptr_nonnull(payload_path_fault(S(name)));
	ck_assert_ptr_null(payload_path_fault(S(name + 1)));
	for (size_t i = 0; i < sizeof(deep); i++)
		deep[i] = i % 2 == 0 ? 'a' : '/';
	deep[sizeof(deep) - 1] = '\0';
	ck_assert_ptr_nonnull(payload_path_fault(S(deep)));
	ck_assert_ptr_null(payload_path_fault(S(deep + 2)));
}
END_TEST

/* A list of one text. */
static struct slice
list_of(struct buf *b, const char *text)
{
	pack_array(b, 1);
	pack_str(b, text);
	return buf_slice(b);
}

START_TEST(a_command_is_said_in_one_way) /* OP-11 */
{
	struct buf argv = { 0 };
	struct msg_operation_submit m = { .kind = operation_kind_command,
		.has_session = true };

	ck_assert_ptr_nonnull(payload_fault(&m));
	m.has_shell = true;
	m.shell = S("true");
	ck_assert_ptr_null(payload_fault(&m));
	m.has_argv = true;
	m.argv = list_of(&argv, "true");
	ck_assert_ptr_nonnull(payload_fault(&m));
	m.has_shell = false;
	ck_assert_ptr_null(payload_fault(&m));
	buf_finish(&argv);
}
END_TEST

START_TEST(a_kind_has_its_own_members_and_no_others) /* OP-10 */
{
	struct msg_operation_submit m = { .kind = operation_kind_renameFile,
		.has_session = true, .has_path = true, .path = S("a") };

	ck_assert_str_eq(payload_fault(&m), "to: is missing");
	m.has_to = true;
	m.to = S("b");
	ck_assert_ptr_null(payload_fault(&m));
	m.to = S("../b");
	ck_assert_ptr_nonnull(payload_fault(&m));
	m.to = S("b");
	m.has_content = true;
	ck_assert_str_eq(payload_fault(&m),
	    "content: is for another kind of operation, or for none in a session");
	m.kind = operation_kind_turn;
	ck_assert_ptr_nonnull(payload_fault(&m));
}
END_TEST

START_TEST(without_a_session_nothing_of_one_may_be_said)
{
	struct msg_operation_submit m = { .kind = operation_kind_command, .has_input = true };

	ck_assert_ptr_null(payload_fault(&m));
	m.has_shell = true;
	m.shell = S("true");
	ck_assert_str_eq(payload_fault(&m), "shell: is for an operation in a session");
}
END_TEST

START_TEST(a_change_is_asked_for_as_its_tool_takes_it)
{
	struct msg_operation_submit m = { .kind = operation_kind_writeFile,
		.has_session = true, .has_path = true, .path = S("a"), .has_content = true,
		.content = S("text"), .has_append = true, .append = true };
	struct payload *p = payload_create(&m);
	struct buf b = { 0 };
	struct fault fault;
	struct value v;

	ck_assert_ptr_nonnull(p);
	ck_assert_str_eq(payload_pack_call(p, &b), "workspace.write");
	ck_assert_int_eq(walk_value(b.p, b.n, &fault), 0);
	ck_assert(value_get(buf_slice(&b), "content", &v) && slice_is(v.bytes, "text"));
	ck_assert(value_get(buf_slice(&b), "append", &v) && v.boolean);
	ck_assert_uint_eq(payload_bytes(&m), 5);
	buf_finish(&b);
	payload_destroy(p);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("sandbox");
	TCase *c = tcase_create("rules");
	SRunner *runner;
	int failed;

	tcase_add_test(c, what_runs_does_not_wait);
	tcase_add_test(c, a_lease_ends_when_it_was_not_renewed);
	tcase_add_test(c, an_older_heartbeat_moves_no_lease_back);
	tcase_add_test(c, without_a_lease_nothing_is_over);
	tcase_add_test(c, paths_stay_beneath_the_workspace);
	tcase_add_test(c, a_command_is_said_in_one_way);
	tcase_add_test(c, a_kind_has_its_own_members_and_no_others);
	tcase_add_test(c, without_a_session_nothing_of_one_may_be_said);
	tcase_add_test(c, a_change_is_asked_for_as_its_tool_takes_it);
	suite_add_tcase(s, c);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
