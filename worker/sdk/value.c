#include "worker/sdk/caisson.h"

#define DEPTH_MAX 32 /* containers in containers, the frame included */

/* How each type looks: numbers below `below` stand in the first byte, added to `fix`; others
 * follow it, `width` bytes wide after `code`, twice as wide after the next code, ... */
static const struct kind {
	uint8_t fix, below, code, codes, width;
} kinds[] = {
	[CAISSON_NIL] = { 0, 0, 0xc0, 1, 0 },
	[CAISSON_BOOL] = { 0, 0, 0xc2, 2, 0 },
	[CAISSON_UINT] = { 0x00, 128, 0xcc, 4, 1 },
	[CAISSON_INT] = { 0, 0, 0xd0, 4, 1 },
	[CAISSON_REAL] = { 0, 0, 0xcb, 1, 8 },
	[CAISSON_STR] = { 0xa0, 32, 0xd9, 3, 1 },
	[CAISSON_BIN] = { 0, 0, 0xc4, 3, 1 },
	[CAISSON_ARRAY] = { 0x90, 16, 0xdc, 2, 2 },
	[CAISSON_MAP] = { 0x80, 16, 0xde, 2, 2 },
};

struct caisson_head
caisson_head(struct caisson_value v)
{
	struct caisson_head h = { CAISSON_NONE, 0, 0 };
	unsigned b = v.n > 0 ? v.p[0] : 0xc1, t = CAISSON_NIL, i;
	const struct kind *k;

	if (b >= 0xe0)
		return (struct caisson_head){ CAISSON_INT, (uint64_t)(int8_t)b, 1 };
	for (k = kinds + t; t <= CAISSON_MAP; k = kinds + ++t) {
		if (b >= k->fix && b < (unsigned)k->fix + k->below)
			return (struct caisson_head){ t, b - k->fix, 1 };
		if (b >= k->code && b < (unsigned)k->code + k->codes)
			break;
	}
	h.size = t <= CAISSON_MAP ? 1 + ((size_t)k->width << (b - k->code)) : v.n + 1;
	if (h.size > v.n)
		return (struct caisson_head){ CAISSON_NONE, 0, 0 };
	h.type = t;
	h.n = t == CAISSON_BOOL ? b & 1 : t == CAISSON_INT && v.p[1] & 0x80 ? UINT64_MAX : 0;
	for (i = 1; i < h.size; i++)
		h.n = h.n << 8 | v.p[i];
	return h;
}

static inline struct caisson_value
after(struct caisson_value v, size_t n)
{
	return n == 0 ? v : (struct caisson_value){ v.p + n, v.n - n };
}

static inline uint64_t
items_of(struct caisson_head h)
{
	return h.type == CAISSON_ARRAY ? h.n : h.type == CAISSON_MAP ? 2 * h.n : 0;
}

/* Takes one whole value off the front of `rest`; false if none is there. */
static bool
take(struct caisson_value *rest, struct caisson_value *ret, unsigned depth)
{
	struct caisson_value v = *rest, item;
	struct caisson_head h = caisson_head(v);
	bool bytes = h.type == CAISSON_STR || h.type == CAISSON_BIN;
	uint64_t items = items_of(h);

	*rest = after(v, h.size);
	if (h.type == CAISSON_NONE || (bytes && h.n > rest->n) ||
	    (items > 0 && depth == DEPTH_MAX))
		return false;
	*rest = after(*rest, bytes ? h.n : 0);
	for (; items > 0; items--)
		if (!take(rest, &item, depth + 1))
			return false;
	*ret = (struct caisson_value){ v.p, v.n - rest->n };
	return true;
}

bool
caisson_take(struct caisson_value *rest, struct caisson_value *ret)
{
	return take(rest, ret, 0);
}

struct caisson_cursor
caisson_iterate(struct caisson_value v)
{
	struct caisson_head h = caisson_head(v);

	return (struct caisson_cursor){ after(v, h.size), items_of(h) };
}

bool
caisson_next(struct caisson_cursor *it, struct caisson_value *ret)
{
	return it->left > 0 && it->left-- > 0 && take(&it->rest, ret, 0);
}

void
caisson_put_raw(struct caisson_writer *w, const void *p, size_t n)
{
	size_t cap = w->cap > 0 ? w->cap : 256;
	uint8_t *grown;

	while (cap - w->n < n)
		cap *= 2;
	if (w->error == 0 && cap > w->cap) {
		grown = realloc(w->p, cap);
		if (grown == NULL)
			w->error = -ENOMEM;
		else
			*w = (struct caisson_writer){ grown, w->n, cap, 0 };
	}
	if (w->error == 0 && n > 0) {
		memcpy(w->p + w->n, p, n);
		w->n += n;
	}
}

void
caisson_put_head(struct caisson_writer *w, enum caisson_type type, uint64_t n)
{
	const struct kind *k = kinds + type;
	unsigned width = k->width, code = k->code, i;
	uint8_t bytes[9];

	if (n < k->below)
		width = 0, code = k->fix + (unsigned)n;
	else if (type == CAISSON_INT && n >= (uint64_t)-32)
		width = 0, code = (uint8_t)n;
	else if (type == CAISSON_INT)
		while (width < 8 && (int64_t)n < -((int64_t)1 << (8 * width - 1)))
			width *= 2, code++;
	else
		while (width != 0 && width < 8 && n >> 8 * width != 0)
			width *= 2, code++;
	bytes[0] = (uint8_t)(type == CAISSON_BOOL ? code + n : code);
	for (i = width; i > 0; i--, n >>= 8)
		bytes[i] = (uint8_t)n;
	caisson_put_raw(w, bytes, 1 + width);
}
