#include "broker/pace.h"

bool
pace_look(struct pace *p, uint64_t nreads, uint64_t now_ms)
{
	bool first = !p->reads;

	if (nreads == p->nreads)
		return false;
	p->nreads = nreads;
	p->since_ms = now_ms;
	p->reads = true;
	return first;
}

void
pace_fill(struct pace *p, uint64_t now_ms)
{
	if (!p->full)
		p->since_ms = now_ms;
	p->full = true;
}

void
pace_empty(struct pace *p)
{
	p->full = false;
}

uint64_t
pace_until(const struct pace *p, struct pace_credit *credit, uint64_t now_ms)
{
	if (p->reads)
		return p->since_ms + PACE_MS;
	if (credit->until_ms == 0)
		credit->until_ms = now_ms + PACE_MS;
	return credit->until_ms;
}
