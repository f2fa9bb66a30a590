#include "common/pending.h"

#include <errno.h>
#include <stdlib.h>

#define PENDING_FIRST 16

void
pending_finish(struct pending *p)
{
	free(p->slot);
	*p = (struct pending) { 0 };
}

int
pending_reserve(struct pending *p)
{
	struct pending grown = { .cap = p->cap > 0 ? p->cap * 2 : PENDING_FIRST };
	uint32_t i;

	/* Half full at most, so that a search is short. */
	if (p->n < p->cap / 2)
		return 0;
	grown.slot = calloc(grown.cap, sizeof *grown.slot);
	if (grown.slot == NULL)
		return -ENOMEM;
	for (i = 0; i < p->cap; i++)
		if (p->slot[i].type != 0)
			pending_add(&grown, p->slot[i].msgid, p->slot[i].type - 1);
	free(p->slot);
	*p = grown;
	return 0;
}

/* The slot that holds `msgid`, or the free one where it would be. */
static uint32_t
find(const struct pending *p, uint32_t msgid)
{
	uint32_t i = msgid & (p->cap - 1);

	while (p->slot[i].type != 0 && p->slot[i].msgid != msgid)
		i = (i + 1) & (p->cap - 1);
	return i;
}

void
pending_add(struct pending *p, uint32_t msgid, int type)
{
	p->slot[find(p, msgid)] = (struct pending_slot) { msgid, type + 1 };
	p->n++;
}

int
pending_get(const struct pending *p, uint32_t msgid)
{
	return p->cap > 0 ? p->slot[find(p, msgid)].type - 1 : -1;
}

void
pending_remove(struct pending *p, uint32_t msgid)
{
	uint32_t hole, i, home;

	if (p->cap == 0)
		return;
	hole = find(p, msgid);
	if (p->slot[hole].type == 0)
		return;
	p->n--;
	/* What follows moves up unless it would then stand before its home. */
	for (i = (hole + 1) & (p->cap - 1); p->slot[i].type != 0; i = (i + 1) & (p->cap - 1)) {
		home = p->slot[i].msgid & (p->cap - 1);
		if (((i - home) & (p->cap - 1)) >= ((i - hole) & (p->cap - 1))) {
			p->slot[hole] = p->slot[i];
			hole = i;
		}
	}
	p->slot[hole].type = 0;
}
