/*
 * authority_fixture: what the tests of decisions share: a good grant with one member
 * changed, a context, and random numbers that are the same everywhere.
 */
#ifndef TESTS_AUTHORITY_FIXTURE_H
#define TESTS_AUTHORITY_FIXTURE_H

#include <check.h>
#include <stdint.h>

#include "broker/authority/chain.h"
#include "broker/authority/set.h"
#include "common/util.h"

/* GRANT() overrides members of a good grant, on purpose. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define ADMITTED 1000
#define NOW	 2000

#define PATH(a)                                                                                \
	{                                                                                      \
		a, countof(a)                                                                  \
	}
#define ACTIONS(a) a, countof(a)
#define NO_CALL    NULL, NULL /* the last two members of a requirement */

static const char *act_read[] = { "read" };
static const char *seg_docs[] = { "docs" }, *seg_docs_a[] = { "docs", "a" };

static const struct capability docs_below = { "workspace", NULL, PATH(seg_docs), true,
	ACTIONS(act_read) };

/* A grant that covers reading below docs, with one member changed. */
#define GRANT(...)                                                                             \
	(struct grant)                                                                         \
	{                                                                                      \
		.id = "g", .subject = "agent:a", .issuer = "human:h", .namespace = "default",  \
		.capabilities = &docs_below, .ncapabilities = 1, .issued_at_ms = 500,          \
		__VA_ARGS__                                                                    \
	}

static const struct requirement read_docs_a = { "workspace", NULL, PATH(seg_docs_a), "read",
	NO_CALL };

/* Admitted when the set was as it is. */
static inline struct context
admitted(const struct grant_set *set)
{
	return (struct context){ "agent:a", "human:h", "human:o", "default", "work", ADMITTED,
		set != NULL ? grant_set_revision(set) : 0 };
}

/* A set of grants in their order, each of which gets an id if `named` is false. */
static inline struct grant_set *
set_of(struct grant *g, size_t n, bool named)
{
	static const char *const ids[] = { "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7" };
	struct grant_set *set = grant_set_create(REVOCATION_immediate);
	size_t i;

	ck_assert_ptr_nonnull(set);
	ck_assert_uint_le(n, countof(ids));
	for (i = 0; i < n; i++) {
		if (!named)
			g[i].id = ids[i];
		ck_assert_int_eq(grant_set_add(set, &g[i]), 0);
	}
	return set;
}

static inline uint64_t
random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed >> 11;
}

#endif /* TESTS_AUTHORITY_FIXTURE_H */
