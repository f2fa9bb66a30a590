#include "broker/authority/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define SLOTS_FIRST 64

int
table_init(struct table *t)
{
	t->slots = calloc(SLOTS_FIRST, sizeof(*t->slots));
	t->mask = SLOTS_FIRST - 1;
	t->n = 0;
	return t->slots != NULL ? 0 : -ENOMEM;
}

void
table_finish(struct table *t)
{
	free(t->slots);
	*t = (struct table){ NULL, 0, 0 };
}

static void
place(struct table *t, uint64_t hash, void *item)
{
	uint64_t at = hash;

	while (t->slots[at & t->mask].item != NULL)
		at++;
	t->slots[at & t->mask] = (struct table_slot){ hash, item };
}

int
table_reserve(struct table *t, size_t more)
{
	struct table old = *t;
	size_t size = t->mask + 1, i;

	while (size / 2 < t->n + more)
		size *= 2;
	if (size == t->mask + 1)
		return 0;
	t->slots = calloc(size, sizeof(*t->slots));
	if (t->slots == NULL) {
		*t = old;
		return -ENOMEM;
	}
	t->mask = size - 1;
	for (i = 0; i <= old.mask; i++)
		if (old.slots[i].item != NULL)
			place(t, old.slots[i].hash, old.slots[i].item);
	free(old.slots);
	return 0;
}

void
table_put(struct table *t, uint64_t hash, void *item)
{
	assert(item != NULL && t->n < (t->mask + 1) / 2);
	place(t, hash, item);
	t->n++;
}

void
table_remove(struct table *t, uint64_t hash, const void *item)
{
	uint64_t hole = hash, at;
	struct table_slot s;

	while (t->slots[hole & t->mask].item != item) {
		assert(t->slots[hole & t->mask].item != NULL);
		hole++;
	}
	/* What stands behind the hole because of it moves up: no search may end too early. */
	for (at = hole + 1;; at++) {
		s = t->slots[at & t->mask];
		if (s.item == NULL)
			break;
		if (((at - s.hash) & t->mask) < ((at - hole) & t->mask))
			continue;
		t->slots[hole & t->mask] = s;
		hole = at;
	}
	t->slots[hole & t->mask] = (struct table_slot){ 0, NULL };
	t->n--;
}
