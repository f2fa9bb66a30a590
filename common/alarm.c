#include "common/alarm.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"

LIST_HEAD(alarm_list, alarm);

struct alarms {
	int fd;
	struct event *expired;
	struct alarm_list set;
	uint64_t armed_at_ms; /* what the descriptor waits for; 0: nothing */
};

static void
arm(struct alarms *all, uint64_t at_ms)
{
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at_ms / 1000),
				    .tv_nsec = (long)(at_ms % 1000) * 1000000 } };
	int r;

	if (at_ms == 0 || (all->armed_at_ms != 0 && all->armed_at_ms <= at_ms))
		return;
	r = timerfd_settime(all->fd, TFD_TIMER_ABSTIME, &t, NULL);
	assert(r == 0); /* the descriptor and the instant are ours */
	all->armed_at_ms = at_ms;
}

/* What is due leaves first, so that what is set meanwhile waits for another turn. */
static void
alarms_on_expired(evutil_socket_t fd, short events, void *arg)
{
	struct alarms *all = arg;
	struct alarm_list due = LIST_HEAD_INITIALIZER(due);
	uint64_t count, now_ms = clock_ms(), first_ms = 0;
	struct alarm *a, *next;

	(void)events;
	if (read(fd, &count, sizeof count) < 0)
		return;
	all->armed_at_ms = 0;
	for (a = LIST_FIRST(&all->set); a != NULL; a = next) {
		next = LIST_NEXT(a, entry);
		if (a->at_ms <= now_ms) {
			LIST_REMOVE(a, entry);
			LIST_INSERT_HEAD(&due, a, entry);
		} else if (first_ms == 0 || a->at_ms < first_ms) {
			first_ms = a->at_ms;
		}
	}
	arm(all, first_ms);
	while ((a = LIST_FIRST(&due)) != NULL) {
		alarm_clear(a);
		a->fn(a->arg);
	}
}

struct alarms *
alarms_create(struct event_base *base)
{
	struct alarms *all = calloc(1, sizeof *all);
	int saved;

	if (all == NULL)
		return NULL;
	LIST_INIT(&all->set);
	all->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (all->fd >= 0)
		all->expired = event_new(
		    base, all->fd, EV_READ | EV_PERSIST, alarms_on_expired, all);
	if (all->expired != NULL && event_add(all->expired, NULL) == 0)
		return all;
	saved = errno;
	alarms_destroy(all);
	errno = saved != 0 ? saved : ENOMEM;
	return NULL;
}

void
alarms_destroy(struct alarms *all)
{
	if (all == NULL)
		return;
	while (!LIST_EMPTY(&all->set))
		alarm_clear(LIST_FIRST(&all->set));
	if (all->expired != NULL)
		event_free(all->expired);
	if (all->fd >= 0)
		close(all->fd);
	free(all);
}

void
alarm_set(struct alarms *all, struct alarm *a, uint64_t at_ms)
{
	assert(at_ms > 0);
	alarm_clear(a);
	a->at_ms = at_ms;
	LIST_INSERT_HEAD(&all->set, a, entry);
	arm(all, at_ms);
}

void
alarm_clear(struct alarm *a)
{
	if (a->at_ms == 0)
		return;
	a->at_ms = 0;
	LIST_REMOVE(a, entry);
}
