#include "common/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST 512 /* bytes: most frames fit without growing again */

void
buf_finish(struct buf *b)
{
	if (b == NULL)
		return;
	free(b->p);
	*b = (struct buf) { 0 };
}

bool
buf_grow(struct buf *b, size_t n)
{
	size_t cap = b->cap > 0 ? b->cap : BUF_FIRST;
	uint8_t *p = NULL;

	if (n <= SIZE_MAX / 4 - b->n) {
		while (cap < b->n + n)
			cap *= 2;
		p = realloc(b->p, cap);
	}
	if (p == NULL) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void
buf_add(struct buf *b, const void *p, size_t n)
{
	uint8_t *room;

	if (n == 0)
		return;
	room = buf_room(b, n);
	if (room != NULL)
		memcpy(room, p, n);
}

bool
slice_equal(struct slice a, struct slice b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

char *
slice_dup(struct slice s)
{
	char *text;

	if (s.n > 0 && memchr(s.p, '\0', s.n) != NULL) {
		errno = EINVAL;
		return NULL;
	}
	text = malloc(s.n + 1);
	if (text == NULL)
		return NULL;
	if (s.n > 0)
		memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return text;
}
