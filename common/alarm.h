/*
 * alarm: timers of a loop that cost nothing while they wait.
 *
 * A timer of libevent's becomes the timeout of every wait of the loop, which the kernel
 * sets up and takes down each time: 1.5 us on a virtual machine, and a brokered call waits
 * twice.  Alarms share one timerfd, which is set when the first of them comes to stand
 * before all others, and not taken back when it is cleared.
 *
 * `struct alarms` owns the descriptor, and lives as long as its loop; who sets an alarm owns
 * it, and clears it before it goes.
 */
#ifndef COMMON_ALARM_H
#define COMMON_ALARM_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>

struct event_base;
struct alarms;

/* Starts as zeroes but for `fn` and `arg`. */
struct alarm {
	void (*fn)(void *arg); /* may set, clear and free any alarm, this one too */
	void *arg;
	uint64_t at_ms; /* of the monotonic clock; 0: not set */
	LIST_ENTRY(alarm) entry;
};

/* NULL with errno set.  Later on only timerfd_settime(2) and read(2) are needed. */
struct alarms *alarms_create(struct event_base *base);
/* What is still set is cleared.  NULL is allowed. */
void alarms_destroy(struct alarms *all);

/* Calls a->fn once, from the loop, at `at_ms` > 0 or when that has passed; it may be set. */
void alarm_set(struct alarms *all, struct alarm *a, uint64_t at_ms);
/* It need not be set. */
void alarm_clear(struct alarm *a);

#endif /* COMMON_ALARM_H */
