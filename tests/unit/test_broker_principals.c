/*
 * config.principal: each row is read whole, and no two say who one and the same client is.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/config.h"
#include "common/util.h"
#include "common/walk.h"

#define S(text) slice_of(text)

/* A row, in short: digests are the byte that fills them, uids numbers, words apart by spaces. */
struct row {
	const char *id, *tokens, *certificates;
	uint64_t uids[3];
	size_t nuids;
	const char *runtimes;
	uint32_t connections; /* and one more */
	bool operator, no_connections;
};

#define ROW(...) (struct row) { __VA_ARGS__ }

static const char *
text(const char *may_be_null)
{
	return may_be_null != NULL ? may_be_null : "";
}

static void
pack_digests(struct buf *b, const char *fills, size_t n)
{
	uint8_t digest[64];

	pack_array(b, (uint32_t)strlen(fills));
	for (; *fills != '\0'; fills++) {
		memset(digest, *fills, sizeof(digest));
		pack_bin(b, digest, n);
	}
}

static void
pack_row(struct buf *b, const struct row *row, size_t digest_bytes)
{
	struct buf tokens = { 0 }, certificates = { 0 }, uids = { 0 }, runtimes = { 0 };
	struct msg_config_principal m = { .id = S(row->id),
		.has_operator = true,
		.operator= row->operator,
		.sessions = 7,
		.connections = row->no_connections ? 0 : row->connections + 1 };
	cleanup_free char *words = strdup(text(row->runtimes));
	char *word, *rest = words;
	size_t n = 0;

	pack_digests(&tokens, text(row->tokens), digest_bytes);
	pack_digests(&certificates, text(row->certificates), 32);
	pack_array(&uids, (uint32_t)row->nuids);
	for (size_t i = 0; i < row->nuids; i++)
		pack_uint(&uids, row->uids[i]);
	for (size_t i = 0; words[i] != '\0'; i++)
		n += i == 0 || words[i] == ' ';
	pack_array(&runtimes, (uint32_t)n);
	while (n > 0 && (word = strsep(&rest, " ")) != NULL)
		pack_str(&runtimes, word);
	m.tokens = buf_slice(&tokens);
	m.certificates = buf_slice(&certificates);
	m.uids = buf_slice(&uids);
	m.runtimes = buf_slice(&runtimes);
	ck_assert_int_eq(protocol_notify(b, MSG_config_principal, &m), 0);
	buf_finish(&tokens);
	buf_finish(&certificates);
	buf_finish(&uids);
	buf_finish(&runtimes);
}

static void
pack_head(struct buf *b)
{
	static const uint8_t key[32];
	const struct msg_config_broker broker = { .namespace = S("default"),
		.authority = S("human:operator"),
		.owner = S("human:owner"),
		.purpose = S("work"),
		.key = { key, 32 },
		.maxSteps = 1,
		.operator= 1000 };
	const struct msg_config_runtime runtime = {
		.id = S("shell"), .version = S("1"), .kind = operation_kind_command
	};

	ck_assert_int_eq(protocol_notify(b, MSG_config_broker, &broker), 0);
	ck_assert_int_eq(protocol_notify(b, MSG_config_runtime, &runtime), 0);
}

/* Takes `b`. */
static int
read_it(struct buf *b, struct config **ret, struct fault *fault, const char **row)
{
	int fd = memfd_create("config", MFD_CLOEXEC), r;

	ck_assert_int_eq(protocol_notify(b, MSG_config_end, &(struct msg_config_end){ 0 }), 0);
	ck_assert_int_eq(write(fd, b->p, b->n), (ssize_t)b->n);
	r = config_read(fd, ret, fault, row);
	close(fd);
	buf_finish(b);
	return r;
}

static int
read_rows(const struct row *rows, size_t n, size_t digest_bytes, struct config **ret,
    struct fault *fault, const char **row)
{
	struct buf b = { 0 };

	pack_head(&b);
	for (size_t i = 0; i < n; i++)
		pack_row(&b, &rows[i], digest_bytes);
	return read_it(&b, ret, fault, row);
}

START_TEST(rows_are_read_whole)
{
	const struct row rows[] = {
		ROW(.id = "human:alice", .tokens = "ab", .certificates = "a",
		    .uids = { 1, 0, UINT32_MAX - 1 }, .nuids = 3, .runtimes = "shell",
		    .connections = 9),
		ROW(.id = "service:ci", .tokens = "c", .runtimes = "shell *", .operator= true),
		ROW(.id = "agent:nothing"),
	};
	struct config *c = NULL;
	struct fault fault;
	const char *row;

	ck_assert_int_eq(read_rows(rows, countof(rows), 32, &c, &fault, &row), 0);
	ck_assert_uint_eq(c->nprincipals, 3);
	ck_assert_str_eq(c->principals[0].id, "human:alice");
	ck_assert_uint_eq(c->principals[0].ntokens, 2);
	ck_assert_int_eq(c->principals[0].tokens[1][31], 'b');
	ck_assert_uint_eq(c->principals[0].ncertificates, 1);
	ck_assert_int_eq(c->principals[0].certificates[0][0], 'a');
	ck_assert_uint_eq(c->principals[0].nuids, 3);
	ck_assert_uint_eq(c->principals[0].uids[2], UINT32_MAX - 1);
	ck_assert_str_eq(c->principals[0].runtimes[0], "shell");
	ck_assert(!c->principals[0].all_runtimes && !c->principals[0].operator);
	ck_assert_uint_eq(c->principals[0].connections, 10);
	ck_assert_uint_eq(c->principals[0].sessions, 7);
	ck_assert(c->principals[1].all_runtimes && c->principals[1].operator);
	ck_assert_uint_eq(c->principals[2].ntokens + c->principals[2].nuids, 0);
	config_release(c);
}
END_TEST

#define TWICE "has one that stands before, here or elsewhere"

static const struct {
	struct row rows[2];
	size_t digest_bytes;
	const char *row, *field, *rule;
} mistakes[] = {
	{ { ROW(.id = "human:a"), ROW(.id = "bob") }, 32, "config.principal 2", "id",
	    "does not begin with human:, agent:, group: or service:" },
	{ { ROW(.id = "human:a"), ROW(.id = "human:a") }, 32, "config.principal (human:a)",
	    "id", "stands twice" },
	{ { ROW(.id = "human:a", .tokens = "xy"), ROW(.id = "human:b", .tokens = "zx") }, 32,
	    "config.principal 2 (human:b)", "tokens", TWICE },
	{ { ROW(.id = "human:a", .tokens = "xx"), ROW(.id = "human:b") }, 32,
	    "config.principal 1 (human:a)", "tokens", TWICE },
	{ { ROW(.id = "human:a", .certificates = "x"),
	      ROW(.id = "human:b", .certificates = "x") }, 32,
	    "config.principal 2 (human:b)", "certificates", TWICE },
	{ { ROW(.id = "human:a", .uids = { 5 }, .nuids = 1),
	      ROW(.id = "human:b", .uids = { 4, 5 }, .nuids = 2) }, 32,
	    "config.principal 2 (human:b)", "uids", TWICE },
	{ { ROW(.id = "human:a", .tokens = "x"), ROW(.id = "human:b") }, 31,
	    "config.principal 1 (human:a)", "tokens", "has an element that is not 32 bytes" },
	{ { ROW(.id = "human:a", .tokens = "x"), ROW(.id = "human:b") }, 33,
	    "config.principal 1 (human:a)", "tokens", "has an element that is not 32 bytes" },
	{ { ROW(.id = "human:a"),
	      ROW(.id = "human:b", .uids = { UINT32_MAX }, .nuids = 1) }, 32,
	    "config.principal 2 (human:b)", "uids", "has an element that is no uid" },
	{ { ROW(.id = "human:a"),
	      ROW(.id = "human:b", .uids = { UINT64_C(1) << 32 }, .nuids = 1) }, 32,
	    "config.principal 2 (human:b)", "uids", "has an element that is no uid" },
	{ { ROW(.id = "human:a"), ROW(.id = "human:b", .runtimes = "shel") }, 32,
	    "config.principal 2 (human:b)", "runtimes",
	    "names a runtime that is not configured" },
	{ { ROW(.id = "human:a"), ROW(.id = "human:b", .runtimes = "* * *") }, 32,
	    "config.principal 2 (human:b)", "runtimes", "has too many elements" },
	{ { ROW(.id = "human:a", .no_connections = true), ROW(.id = "human:b") }, 32,
	    "config.principal 1 (human:a)", "connections", "is 0" },
};

START_TEST(a_mistake_is_named_by_row_and_field)
{
	struct config *c = NULL;
	struct fault fault;
	const char *row;
	uint32_t index;

	ck_assert_int_eq(read_rows(mistakes[_i].rows, 2, mistakes[_i].digest_bytes, &c,
			     &fault, &row), -EINVAL);
	ck_assert_ptr_null(c);
	ck_assert_str_eq(row, mistakes[_i].row);
	ck_assert_str_eq(fault.field, mistakes[_i].field);
	ck_assert_str_eq(fault.rule, mistakes[_i].rule);
	/* Where two rows are to blame, neither is named by its number. */
	if (strcmp(fault.rule, "stands twice") == 0)
		return;
	ck_assert_int_eq(config_fault_row(&index), CONFIG_ROW_PRINCIPAL);
	ck_assert_uint_eq(index, mistakes[_i].row[sizeof("config.principal ") - 1] - '1');
}
END_TEST

START_TEST(there_are_no_more_than_there_may_be)
{
	struct config *c = NULL;
	struct fault fault;
	struct buf b = { 0 };
	const char *row;
	char id[32];

	pack_head(&b);
	for (int i = 0; i <= CONFIG_PRINCIPALS_MAX; i++) {
		snprintf(id, sizeof(id), "human:p%d", i);
		pack_row(&b, &ROW(.id = id), 32);
	}
	ck_assert_int_eq(read_it(&b, &c, &fault, &row), -EINVAL);
	ck_assert_str_eq(row, "config.principal 1025");
	pack_head(&b);
	for (int i = 0; i < CONFIG_PRINCIPALS_MAX; i++) {
		snprintf(id, sizeof(id), "human:p%d", i);
		pack_row(&b, &ROW(.id = id), 32);
	}
	ck_assert_int_eq(read_it(&b, &c, &fault, &row), 0);
	config_release(c);
}
END_TEST

START_TEST(they_stand_behind_the_runtimes_that_they_name)
{
	struct buf b = { 0 };
	struct config *c = NULL;
	struct fault fault;
	const char *row;
	const struct msg_config_runtime runtime = {
		.id = S("late"), .version = S("1"), .kind = operation_kind_command
	};

	pack_head(&b);
	pack_row(&b, &ROW(.id = "human:a"), 32);
	ck_assert_int_eq(protocol_notify(&b, MSG_config_runtime, &runtime), 0);
	ck_assert_int_eq(read_it(&b, &c, &fault, &row), -EINVAL);
	ck_assert_str_eq(fault.rule, "is out of order");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("broker_principals");
	TCase *t = tcase_create("rows");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, rows_are_read_whole);
	tcase_add_loop_test(t, a_mistake_is_named_by_row_and_field, 0, countof(mistakes));
	tcase_add_test(t, there_are_no_more_than_there_may_be);
	tcase_add_test(t, they_stand_behind_the_runtimes_that_they_name);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
