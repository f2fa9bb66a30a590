#include "supervisor/deaths.h"

bool
deaths_note(struct deaths *d, uint64_t now_ms, unsigned window_ms)
{
	uint64_t *oldest = &d->at_ms[d->n % DEATHS_MAX];
	bool many = d->n >= DEATHS_MAX && now_ms - *oldest < window_ms;

	*oldest = now_ms;
	d->n++;
	return many;
}

bool
deaths_recent(const struct deaths *d, uint64_t now_ms, unsigned window_ms)
{
	return d->n > 0 && now_ms - d->at_ms[(d->n - 1) % DEATHS_MAX] < window_ms;
}
