#include "worker/sdk/caisson.h"

#define DEPTH_MAX	  32 /* containers in containers, a frame included */
#define NODES_MAX	  (1u << 16)
#define PAYLOAD_DEPTH_MAX 24 /* of a value in a frame: the broker passes it on wrapped */
#define PAYLOAD_NODES_MAX (1u << 15)

/* How each type looks: `count` numbers from `from` on stand in the first byte, from `fix` on;
 * others follow it, `width` bytes wide after `code`, twice as wide after the next code, ... */
static const struct kind {
	uint8_t fix, count, code, codes, width;
	int8_t from;
} kinds[] = {
	[CAISSON_NIL] = { 0xc0, 1, 0, 0, 0, 0 },
	[CAISSON_BOOL] = { 0xc2, 2, 0, 0, 0, 0 },
	[CAISSON_UINT] = { 0x00, 128, 0xcc, 4, 1, 0 },
	[CAISSON_INT] = { 0xe0, 32, 0xd0, 4, 1, -32 },
	[CAISSON_REAL] = { 0, 0, 0xcb, 1, 8, 0 },
	[CAISSON_STR] = { 0xa0, 32, 0xd9, 3, 1, 0 },
	[CAISSON_BIN] = { 0, 0, 0xc4, 3, 1, 0 },
	[CAISSON_ARRAY] = { 0x90, 16, 0xdc, 2, 2, 0 },
	[CAISSON_MAP] = { 0x80, 16, 0xde, 2, 2, 0 },
};

struct caisson_head
caisson_head(struct caisson_value v)
{
	unsigned b = v.n > 0 ? v.p[0] : 0xc1, t = CAISSON_NIL;
	struct caisson_head h = { CAISSON_NONE, 0, 0 };
	const struct kind *k = kinds + t;
	size_t size, i;

	while (t <= CAISSON_MAP && b - k->fix >= k->count && b - k->code >= k->codes)
		k = kinds + ++t;
	if (t > CAISSON_MAP)
		return h;
	if (b - k->fix < k->count)
		return (struct caisson_head){ t, (uint64_t)k->from + b - k->fix, 1 };
	size = 1 + ((size_t)k->width << (b - k->code));
	if (size > v.n)
		return h;
	h.n = t == CAISSON_INT && v.p[1] & 0x80 ? UINT64_MAX : 0;
	for (i = 1; i < size; i++)
		h.n = h.n << 8 | v.p[i];
	return (struct caisson_head){ t, h.n, size };
}

static bool
is_container(struct caisson_value v)
{
	return caisson_type(v) == CAISSON_ARRAY || caisson_type(v) == CAISSON_MAP;
}

/* Walks over one value of at most so many containers in containers, and values. */
static bool
walk(struct caisson_value *rest, unsigned depth_max, size_t nodes)
{
	uint64_t left[DEPTH_MAX + 2] = { 1 }; /* values that are to come, at each depth */
	struct caisson_cursor it;
	unsigned depth = 0;
	size_t bytes;

	while (left[0] > 0 || depth > 0) {
		it = caisson_iterate(*rest);
		(void)caisson_bytes(*rest, &bytes);
		if (caisson_type(*rest) == CAISSON_NONE || bytes > it.rest.n ||
		    depth + is_container(*rest) > depth_max || nodes-- == 0)
			return false;
		*rest = (struct caisson_value){ it.rest.p + bytes, it.rest.n - bytes };
		left[depth]--;
		if (it.left > 0)
			left[++depth] = it.left;
		while (depth > 0 && left[depth] == 0)
			depth--;
	}
	return true;
}

bool
caisson_take(struct caisson_value *rest, struct caisson_value *ret)
{
	struct caisson_value v = *rest;

	if (!walk(rest, DEPTH_MAX, NODES_MAX))
		return false;
	*ret = (struct caisson_value){ v.p, v.n - rest->n };
	return true;
}

bool
caisson_fits(struct caisson_value v)
{
	return walk(&v, PAYLOAD_DEPTH_MAX, PAYLOAD_NODES_MAX) && v.n == 0;
}

static const struct {
	const char *name;
	enum caisson_type type;
	size_t least, most; /* bytes, packed */
} option_forms[] = {
	{ "step", CAISSON_UINT, 1, 5 },
	{ "idempotencyKey", CAISSON_STR, 2, 128 + 2 },
	{ "metadata", CAISSON_MAP, 1, 16u << 10 },
	{ "turns", CAISSON_BOOL, 1, 1 },
};

bool
caisson_option_fits(const struct caisson_option *o)
{
	size_t i, n;
	const char *p = caisson_bytes(o->value, &n);

	for (i = 0; i < sizeof option_forms / sizeof *option_forms; i++)
		if (strcmp(o->name, option_forms[i].name) == 0)
			return caisson_type(o->value) == option_forms[i].type &&
			       o->value.n >= option_forms[i].least &&
			       o->value.n <= option_forms[i].most && caisson_fits(o->value) &&
			       (p == NULL || memchr(p, '\0', n) == NULL);
	return false;
}

void
caisson_put_raw(struct caisson_writer *w, const void *p, size_t n)
{
	uint8_t *grown;

	if (w->error == 0 && w->cap - w->n < n) {
		w->cap = 2 * (w->n + n) + 256;
		grown = realloc(w->p, w->cap);
		w->error = grown == NULL ? -ENOMEM : 0;
		w->p = grown == NULL ? w->p : grown;
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
	/* What has to fit: a negative number is as wide as its complement and a sign. */
	uint64_t most = type == CAISSON_INT ? ~n << 1 : n;
	unsigned width = k->width, code = k->code, i;
	uint8_t bytes[9];

	while (width > 0 && width < 8 && most >> 8 * width != 0)
		width *= 2, code++;
	if (n - (uint64_t)k->from < k->count)
		width = 0, code = k->fix + (unsigned)n - (unsigned)k->from;
	bytes[0] = (uint8_t)code;
	for (i = width; i > 0; i--, n >>= 8)
		bytes[i] = (uint8_t)n;
	caisson_put_raw(w, bytes, 1 + width);
}
