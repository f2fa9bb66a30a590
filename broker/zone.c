#include "broker/zone.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 4032 /* with malloc's own head, a page */
#define ALIGN	    16

struct zone_block {
	struct zone_block *next;
	size_t size; /* of bytes */
	_Alignas(ALIGN) uint8_t bytes[];
};

void
zone_finish(struct zone *z)
{
	struct zone_block *b, *next;

	for (b = z->blocks; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
	*z = (struct zone){ NULL, 0 };
}

void *
zone_alloc(struct zone *z, size_t count, size_t size)
{
	struct zone_block *b;
	size_t n, room;
	uint8_t *p;

	if (__builtin_mul_overflow(count, size, &n) || n > SIZE_MAX / 2)
		return NULL;
	n = (n + ALIGN - 1) / ALIGN * ALIGN;
	if (n == 0)
		n = ALIGN; /* an empty array is not a missing one */
	if (n > z->left) {
		room = n > BLOCK_BYTES ? n : BLOCK_BYTES;
		b = calloc(1, sizeof(*b) + room);
		if (b == NULL)
			return NULL;
		b->size = room;
		b->next = z->blocks;
		z->blocks = b;
		z->left = room;
	}
	p = z->blocks->bytes + (z->blocks->size - z->left);
	z->left -= n;
	return p;
}

char *
zone_text(struct zone *z, struct slice s)
{
	char *text = zone_alloc(z, s.n + 1, 1);

	if (text != NULL && s.n > 0)
		memcpy(text, s.p, s.n);
	return text;
}

struct slice
zone_bytes(struct zone *z, struct slice s)
{
	uint8_t *p = zone_alloc(z, s.n, 1);

	if (p == NULL)
		return (struct slice){ NULL, 0 };
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return (struct slice){ p, s.n };
}
