/*
 * clock: the two instants there are.  Deadlines are monotonic instants (_at_ms), never
 * remaining durations; wall-clock time is for grant windows and timestamps only.  A
 * process reads the clock once per loop turn and passes it down.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in ms. */
uint64_t clock_ms(void);
/* CLOCK_REALTIME in ms since 1970. */
uint64_t clock_wall_ms(void);

#endif /* COMMON_CLOCK_H */
