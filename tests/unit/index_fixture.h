/*
 * What the tests of the ledger's index share: an index in memory, and records that are put in.
 */
#ifndef TESTS_UNIT_INDEX_FIXTURE_H
#define TESTS_UNIT_INDEX_FIXTURE_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/limits.h"
#include "common/records.h"
#include "common/util.h"
#include "common/walk.h"
#include "ledger/index_private.h"

static struct index *x;
static struct position at;

static void
setup(void)
{
	at = (struct position){ 0 };
	ck_assert_int_eq(index_open(-1, &x), 0);
}

static void
teardown(void)
{
	index_close(x);
}

static struct msg_record
record(const char *type)
{
	return (struct msg_record){ .id = slice_of("r-1"), .type = slice_of(type),
		.at = 1000 + at.count };
}

#define SET(r, field, slice) ((r)->has_##field = true, (r)->field = (slice))

static void
add(const struct msg_record *r)
{
	struct buf map = { 0 };
	struct entry e = { .record = *r };

	ck_assert_int_eq(protocol_pack(&map, MSG_record, r), 0);
	e.map = buf_slice(&map);
	at.count++;
	ck_assert_int_eq(index_add(x, &e, &at), 0);
	ck_assert_int_eq(index_commit(x), 0);
	buf_finish(&map);
}

#endif /* TESTS_UNIT_INDEX_FIXTURE_H */
