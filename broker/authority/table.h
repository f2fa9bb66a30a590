/*
 * table: items by 64-bit hash, open addressing.  Two items may have one hash: who looks
 * compares.  The items stay their owner's.
 */
#ifndef BROKER_AUTHORITY_TABLE_H
#define BROKER_AUTHORITY_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct table_slot {
	uint64_t hash;
	void *item; /* NULL: empty */
};

struct table {
	struct table_slot *slots;
	size_t mask; /* slots less one; at most half of them are taken */
	size_t n;
};

/* Returns 0, or -ENOMEM. */
int table_init(struct table *t);
void table_finish(struct table *t);
/* Room for `more` items, so that as many table_put() cannot fail.  0, or -ENOMEM. */
int table_reserve(struct table *t, size_t more);
void table_put(struct table *t, uint64_t hash, void *item);
/* It must be there. */
void table_remove(struct table *t, uint64_t hash, const void *item);

/* The next item of that hash, or NULL.  `*at` begins as the hash and is moved on. */
static inline void *
table_next(const struct table *t, uint64_t hash, uint64_t *at)
{
	const struct table_slot *s;

	for (;;) {
		s = &t->slots[(*at)++ & t->mask];
		if (s->item == NULL || s->hash == hash)
			return s->item;
	}
}

static inline void
table_prefetch(const struct table *t, uint64_t hash)
{
	__builtin_prefetch(&t->slots[hash & t->mask]);
}

/*
 * Not a keyed hash: what a peer can choose is looked up and never put in, so that all it
 * can reach are slots that others filled.
 */
static inline uint64_t
hash_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m =
	    (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t
hash_bytes(uint64_t h, const char *text, size_t n)
{
	uint64_t word;

	h = hash_mix(h, n);
	for (; n > 8; n -= 8, text += 8) {
		memcpy(&word, text, 8);
		h = hash_mix(h, word);
	}
	word = 0;
	memcpy(&word, text, n);
	return hash_mix(h, word);
}

#endif /* BROKER_AUTHORITY_TABLE_H */
