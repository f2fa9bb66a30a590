/* process: rows that a broker can read, whatever is known; and what ps makes of them. */
#include "supervisor/process.h"

#include <errno.h>
#include <string.h>

#include <check.h>

#include "client/ps_render.h"
#include "common/util.h"
#include "common/walk.h"
#include "supervisor/profiles.h"

static const char *const handed[] = { "null", "stdout", "stderr", "link", NULL };

static struct process
example(enum process_role role)
{
	return (struct process){ .role = role,
		.state = process_state_starting,
		.uid = 4242,
		.profile = profile_named("interpreter"),
		.handed = handed,
		.since_ms = 1795971879002 };
}

/* Decodes the frame at `*at` as a broker does. */
static struct msg_process_row
next_row(const struct buf *b, size_t *at)
{
	const uint8_t *p = b->p + *at;
	uint32_t n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	struct fault fault = { 0 };
	struct message m;

	ck_assert_msg(protocol_decode(p + 4, n, ROLE_SUPERVISOR, ROLE_BROKER, LINK_NEW, NULL,
			  NULL, &m, &fault) == 0,
	    "%s: %s", fault.field, fault.rule);
	ck_assert_int_eq(m.type, MSG_process_row);
	*at += 4 + n;
	return m.u.process_row;
}

START_TEST(what_is_not_known_is_left_out)
{
	struct process v[] = { example(process_role_broker), example(process_role_worker),
		example(process_role_provider) };
	struct msg_process_row row;
	struct buf b = { 0 };
	size_t at = 0;

	v[1].has_session = true;
	v[1].session = UINT64_MAX;
	v[1].id = "a";
	v[1].uid_comes = true;
	v[2].profile = NULL; /* not launched: nothing of it is known */
	ck_assert_int_eq(process_pack(&b, v, countof(v)), 2);
	row = next_row(&b, &at);
	ck_assert_int_eq(row.role, process_role_broker);
	ck_assert(!row.has_session && !row.has_id && !row.has_applied && !row.has_absent);
	ck_assert(!row.has_processes && !row.has_cpuUs && !row.has_residentBytes);
	ck_assert(!row.has_descriptors);
	ck_assert_uint_eq(row.pid, 0);
	ck_assert(row.has_uid);
	ck_assert_uint_eq(row.uid, 4242);
	ck_assert(slice_is(row.profile, "interpreter"));
	row = next_row(&b, &at);
	ck_assert_uint_eq(row.session, UINT64_MAX);
	ck_assert(slice_is(row.id, "a"));
	ck_assert(!row.has_uid);
	ck_assert_uint_eq(row.since, 1795971879002);
	ck_assert_uint_eq(at, b.n);
	buf_finish(&b);
}
END_TEST

START_TEST(descriptors_have_their_kinds_in_order)
{
	struct process p = example(process_role_worker);
	struct msg_process_row row;
	struct buf b = { 0 };
	struct slice list;
	size_t at = 0, i;

	ck_assert_int_eq(process_pack(&b, &p, 1), 1);
	row = next_row(&b, &at);
	list = row.handed;
	ck_assert_uint_eq(value_next(&list).count, 4);
	for (i = 0; handed[i]; i++)
		ck_assert(slice_is(value_next(&list).bytes, handed[i]));
	buf_finish(&b);
}
END_TEST

START_TEST(a_thousand_rows_stay_within_what_a_broker_reads)
{
	struct process v[1026];
	static char id[257];
	struct buf b = { 0 };
	size_t i, at = 0;

	memset(id, 'x', sizeof(id) - 1);
	for (i = 0; i < countof(v); i++) {
		v[i] = example(process_role_worker);
		v[i].has_session = true;
		v[i].session = UINT64_MAX - i;
		v[i].id = id;
	}
	ck_assert_int_eq(process_pack(&b, v, countof(v)), (int)countof(v));
	for (i = 0; at < b.n; i++)
		next_row(&b, &at);
	ck_assert_uint_eq(i, countof(v));
	ck_assert_uint_lt(b.n, 2u << 20); /* the bound is twice that, with all that is optional */
	buf_finish(&b);
}
END_TEST

START_TEST(what_does_not_fit_its_row_is_an_error)
{
	struct process p = example(process_role_worker);
	static char id[258];
	struct buf b = { 0 };

	memset(id, 'x', sizeof(id) - 1);
	p.id = id;
	ck_assert_int_eq(process_pack(&b, &p, 1), -ERANGE);
	ck_assert_uint_eq(b.n, 0);
	buf_finish(&b);
}
END_TEST

/* ---- what people and programs see -------------------------------------------------- */

/* Layers and descriptors, packed. */
static struct buf applied, absent, kinds;

static struct msg_process_row
shown(void)
{
	buf_finish(&applied);
	buf_finish(&absent);
	buf_finish(&kinds);
	pack_array(&applied, 2);
	pack_str(&applied, "landlock");
	pack_str(&applied, "seccomp");
	pack_array(&absent, 1);
	pack_map(&absent, 2);
	pack_str(&absent, "layer");
	pack_str(&absent, "uid");
	pack_str(&absent, "errno");
	pack_uint(&absent, 1);
	pack_array(&kinds, 1);
	pack_str(&kinds, "null");
	return (struct msg_process_row){ .role = process_role_worker,
		.has_uid = true,
		.state = process_state_running,
		.has_session = true,
		.session = 7,
		.has_id = true,
		.id = slice_of("a\033[2Jb"),
		.pid = 12,
		.uid = 34,
		.profile = slice_of("native"),
		.network = process_network_shared,
		.has_applied = true,
		.applied = { applied.p, applied.n },
		.has_absent = true,
		.absent = { absent.p, absent.n },
		.has_cgroup = true,
		.cgroup = slice_of("v2"),
		.has_peakBytes = true,
		.peakBytes = 5,
		.has_descriptors = true,
		.descriptors = 4,
		.handed = { kinds.p, kinds.n },
		.has_processes = true,
		.processes = 2,
		.has_cpuUs = true,
		.cpuUs = 1234567,
		.has_residentBytes = true,
		.residentBytes = 3 << 19,
		.since = 1795971879002 };
}

static const char *
text_of(struct buf *b)
{
	buf_add(b, "", 1);
	ck_assert(!b->failed);
	return (const char *)b->p;
}

START_TEST(a_row_is_one_object_of_json)
{
	struct msg_process_row row = shown();
	struct buf b = { 0 };

	ps_render_jsonl(&row, &b);
	ck_assert_str_eq(text_of(&b),
	    "{\"role\":\"worker\",\"state\":\"running\",\"session\":7,\"id\":\"a\\u001b[2Jb\","
	    "\"pid\":12,\"uid\":34,\"profile\":\"native\",\"network\":\"shared\","
	    "\"layers\":{\"applied\":[\"landlock\",\"seccomp\"],"
	    "\"absent\":[{\"layer\":\"uid\",\"errno\":1}]},"
	    "\"cgroup\":\"v2\",\"descriptors\":{\"handed\":[\"null\"],\"open\":4},"
	    "\"usage\":{\"processes\":2,\"cpuUs\":1234567,\"residentBytes\":1572864,"
	    "\"peakBytes\":5},"
	    "\"since\":\"2026-11-29T17:04:39.002Z\"}\n");
	buf_finish(&b);
}
END_TEST

START_TEST(what_is_not_known_leaves_json_valid)
{
	struct msg_process_row row = { .handed = { (const uint8_t *)"\x90", 1 },
		.profile = slice_of("p"), .since = UINT64_MAX };
	struct buf b = { 0 };

	ps_render_jsonl(&row, &b);
	ck_assert_str_eq(text_of(&b),
	    "{\"role\":\"broker\",\"state\":\"starting\",\"profile\":\"p\","
	    "\"network\":\"own\",\"descriptors\":{\"handed\":[]},\"usage\":{},"
	    "\"since\":\"18446744073709551615\"}\n");
	buf_finish(&b);
	row.has_cpuUs = true; /* one without those before it */
	ps_render_jsonl(&row, &b);
	ck_assert_ptr_nonnull(strstr(text_of(&b), "\"usage\":{\"cpuUs\":0}"));
	buf_finish(&b);
}
END_TEST

START_TEST(a_table_is_aligned_and_escaped)
{
	struct msg_process_row row = shown();
	struct ps_table t;
	struct buf b = { 0 };

	ps_table_init(&t);
	ps_table_add(&t, &row);
	row.has_id = row.has_session = row.has_cpuUs = row.has_applied = row.has_cgroup = false;
	ps_table_add(&t, &row);
	ps_table_render(&t, true, &b);
	ck_assert_str_eq(text_of(&b),
	    "ROLE    STATE    SESSION  NAME       PID  UID  PROFILE  NETWORK  LAYERS  FDS  "
	    "PROCS  CPU    MEMORY  SINCE\n"
	    "worker  running  7        a\\x1b[2Jb  12   34   native   shared   2 of 3  4    "
	    "2      1.23s  1.5MiB  2026-11-29T17:04:39Z\n"
	    "    layers: landlock, seccomp; absent: uid (Operation not permitted); cgroup: v2; "
	    "born with: null\n"
	    "worker  running  -        -          12   34   native   shared   -       4    "
	    "2      -      1.5MiB  2026-11-29T17:04:39Z\n"
	    "    born with: null\n");
	buf_finish(&b);
	ps_table_finish(&t);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("process");
	TCase *pack = tcase_create("packing"), *render = tcase_create("rendering");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_test(pack, what_is_not_known_is_left_out);
	tcase_add_test(pack, descriptors_have_their_kinds_in_order);
	tcase_add_test(pack, a_thousand_rows_stay_within_what_a_broker_reads);
	tcase_add_test(pack, what_does_not_fit_its_row_is_an_error);
	tcase_add_test(render, a_row_is_one_object_of_json);
	tcase_add_test(render, what_is_not_known_leaves_json_valid);
	tcase_add_test(render, a_table_is_aligned_and_escaped);
	suite_add_tcase(s, pack);
	suite_add_tcase(s, render);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
