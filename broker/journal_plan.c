#include "broker/journal_private.h"

#include <unistd.h>

#ifdef CAISSON_TEST_STOPS
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/util.h"

/*
 * Test builds only: a disk that fails by plan.  CAISSON_JOURNAL_PLAN is a list such as
 *
 *	write:3=ENOSPC write:5=short sync:2=EIO sync:4=stall sync:5=stall/1500 sync:6=held/7
 *
 * The third write fails, of the fifth all but the last byte arrive, the second sync fails,
 * the fourth never ends, the fifth ends after 1500 ms, the sixth once descriptor 7 has an end
 * of file.  `0` in place of a number means every one.  Writes are counted by the loop's
 * thread and syncs by the other: no lock is needed.  With a plan, an outcome waits for the next
 * write however long that takes: a test that counts must not count how fast the machine is.
 */
#define PLAN_ENV "CAISSON_JOURNAL_PLAN"

static const struct {
	const char *name;
	int error;
} errors[] = { { "ENOSPC", ENOSPC }, { "EIO", EIO }, { "EDQUOT", EDQUOT } };

/* What is planned for call `n` of `kind`: the text behind `=`, or "". */
static const char *
planned(const char *kind, unsigned n)
{
	const char *plan = getenv(PLAN_ENV);
	char key[2][32];

	snprintf(key[0], sizeof(key[0]), "%s:%u=", kind, n);
	snprintf(key[1], sizeof(key[1]), "%s:0=", kind);
	for (; plan && *plan; plan += strcspn(plan, " "), plan += strspn(plan, " "))
		for (int i = 0; i < 2; i++)
			if (!strncmp(plan, key[i], strlen(key[i])))
				return plan + strlen(key[i]);
	return "";
}

static bool
is_planned(const char *text, const char *word)
{
	return !strncmp(text, word, strlen(word));
}

static int
planned_error(const char *text)
{
	for (size_t i = 0; i < countof(errors); i++)
		if (is_planned(text, errors[i].name))
			return errors[i].error;
	return 0;
}

static ssize_t
plan_append(int fd, const struct iovec *iov, int n)
{
	static unsigned calls;
	const char *text = planned("write", ++calls);

	errno = planned_error(text);
	if (errno)
		return -1;
	if (is_planned(text, "short"))
		return write(fd, iov[0].iov_base, iov[0].iov_len - 1);
	return writev(fd, iov, n);
}

/* Waits as long as `text` says, or for ever, with the calls that the filter leaves. */
static void
stall(const char *text)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	unsigned long ms = text[0] == '/' ? strtoul(text + 1, NULL, 10) : 0;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms ? (time_t)(ms / 1000) : 1000000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	while (pthread_cond_timedwait(&never, &lock, &until) == 0)
		continue;
	pthread_mutex_unlock(&lock);
}

static void
hold(const char *fd)
{
	char byte;

	while (read((int)strtol(fd, NULL, 10), &byte, 1) > 0)
		continue;
}

static int
plan_sync(int fd)
{
	static unsigned calls;
	const char *text = planned("sync", ++calls);

	if (is_planned(text, "stall"))
		stall(text + strlen("stall"));
	if (is_planned(text, "held/"))
		hold(text + strlen("held/"));
	errno = planned_error(text);
	return errno ? -1 : fdatasync(fd);
}

unsigned
journal_late_ms(void)
{
	return getenv(PLAN_ENV) != NULL ? 1000000 : JOURNAL_LATE_MS;
}

const struct journal_io journal_io_system = { plan_append, plan_sync };

#else

static ssize_t
system_append(int fd, const struct iovec *iov, int n)
{
	return writev(fd, iov, n);
}

unsigned
journal_late_ms(void)
{
	return JOURNAL_LATE_MS;
}

const struct journal_io journal_io_system = { system_append, fdatasync };
#endif
