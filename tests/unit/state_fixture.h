/*
 * state_fixture: a place for a state directory, and what is looked for in it.
 */
#ifndef TESTS_UNIT_STATE_FIXTURE_H
#define TESTS_UNIT_STATE_FIXTURE_H

#include <check.h>
#include <ftw.h>

#include "common/util.h"
#include "supervisor/state.h"

static char dir[64], err[STATE_ERROR_MAX];

static inline void
setup(void)
{
	strlcpy(dir, "/tmp/test_state-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static inline int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void
teardown(void)
{
	chmod(dir, 0700);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline struct rundir
create(void)
{
	struct rundir run;

	ck_assert_msg(rundir_create(dir, &run, err) == 0, "%s", err);
	return run;
}

#endif /* TESTS_UNIT_STATE_FIXTURE_H */
