#include "common/walk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Maps up to this many pairs are sorted without an allocation. */
#define PAIRS_INLINE 16

static uint64_t
big_endian(const uint8_t *p, unsigned width)
{
	uint64_t v = 0;

	while (width-- > 0)
		v = v << 8 | *p++;
	return v;
}

static void
take(struct slice *s, size_t n)
{
	assert(n <= s->n);
	s->p += n;
	s->n -= n;
}

static uint64_t
take_number(struct slice *s, unsigned width)
{
	uint64_t v;

	assert(width <= s->n);
	v = big_endian(s->p, width);
	take(s, width);
	return v;
}

static struct value
bytes_value(struct slice *s, enum value_type type, size_t n)
{
	struct value v = { .type = type, .bytes = { s->p, n } };

	take(s, n);
	return v;
}

static struct value
uint_value(uint64_t u)
{
	return (struct value) { .type = VALUE_UINT, .uint = u };
}

static struct value
container_value(enum value_type type, uint64_t count)
{
	return (struct value) { .type = type, .count = (uint32_t)count };
}

static struct value
real_value(uint64_t bits)
{
	struct value v = { .type = VALUE_FLOAT };

	memcpy(&v.real, &bits, sizeof v.real);
	return v;
}

/* Everything but `raw`. */
static struct value
head(struct slice *s)
{
	uint8_t tag;

	assert(s->n > 0);
	tag = *s->p;
	take(s, 1);
	if (tag <= 0x7f)
		return uint_value(tag);
	if (tag <= 0x8f)
		return container_value(VALUE_MAP, tag & 0x0f);
	if (tag <= 0x9f)
		return container_value(VALUE_ARRAY, tag & 0x0f);
	if (tag <= 0xbf)
		return bytes_value(s, VALUE_STR, tag & 0x1f);
	if (tag >= 0xe0)
		return (struct value) { .type = VALUE_INT, .sint = (int8_t)tag };
	switch (tag) {
	case 0xc0: return (struct value) { .type = VALUE_NIL };
	case 0xc2: return (struct value) { .type = VALUE_BOOL, .boolean = false };
	case 0xc3: return (struct value) { .type = VALUE_BOOL, .boolean = true };
	case 0xc4: return bytes_value(s, VALUE_BIN, take_number(s, 1));
	case 0xc5: return bytes_value(s, VALUE_BIN, take_number(s, 2));
	case 0xc6: return bytes_value(s, VALUE_BIN, take_number(s, 4));
	case 0xcb: return real_value(take_number(s, 8));
	case 0xcc: return uint_value(take_number(s, 1));
	case 0xcd: return uint_value(take_number(s, 2));
	case 0xce: return uint_value(take_number(s, 4));
	case 0xcf: return uint_value(take_number(s, 8));
	case 0xd0: return (struct value) { .type = VALUE_INT, .sint = (int8_t)take_number(s, 1) };
	case 0xd1: return (struct value) { .type = VALUE_INT, .sint = (int16_t)take_number(s, 2) };
	case 0xd2: return (struct value) { .type = VALUE_INT, .sint = (int32_t)take_number(s, 4) };
	case 0xd3: return (struct value) { .type = VALUE_INT, .sint = (int64_t)take_number(s, 8) };
	case 0xd9: return bytes_value(s, VALUE_STR, take_number(s, 1));
	case 0xda: return bytes_value(s, VALUE_STR, take_number(s, 2));
	case 0xdb: return bytes_value(s, VALUE_STR, take_number(s, 4));
	case 0xdc: return container_value(VALUE_ARRAY, take_number(s, 2));
	case 0xdd: return container_value(VALUE_ARRAY, take_number(s, 4));
	case 0xde: return container_value(VALUE_MAP, take_number(s, 2));
	case 0xdf: return container_value(VALUE_MAP, take_number(s, 4));
	}
	assert(!"a value that no walk has passed");
	abort();
}

/* How many values follow the header of `v` as its parts. */
static uint64_t
parts(const struct value *v)
{
	if (v->type == VALUE_ARRAY)
		return v->count;
	return v->type == VALUE_MAP ? (uint64_t)v->count * 2 : 0;
}

static void
skip_parts(struct slice *s, const struct value *v)
{
	uint64_t left = parts(v);

	while (left > 0) {
		struct value part = head(s);

		left += parts(&part) - 1;
	}
}

struct value
value_next(struct slice *s)
{
	struct slice rest = *s, after;
	struct value v = head(&rest);

	after = rest;
	skip_parts(&after, &v);
	v.raw = (struct slice) { s->p, (size_t)(after.p - s->p) };
	*s = rest;
	return v;
}

struct value
value_open(struct slice *s)
{
	const uint8_t *start = s->p;
	struct value v = head(s);

	if (parts(&v) == 0)
		v.raw = (struct slice) { start, (size_t)(s->p - start) };
	return v;
}

struct value
value_skip(struct slice *s)
{
	struct slice rest = *s;
	struct value v = head(&rest);

	skip_parts(&rest, &v);
	v.raw = (struct slice) { s->p, (size_t)(rest.p - s->p) };
	*s = rest;
	return v;
}

bool
value_get(struct slice map, const char *key, struct value *ret)
{
	struct value v = head(&map);
	uint32_t i;

	if (v.type != VALUE_MAP)
		return false;
	for (i = 0; i < v.count; i++) {
		struct value k = head(&map), held = value_skip(&map);

		if (slice_is(k.bytes, key)) {
			*ret = held;
			return true;
		}
	}
	return false;
}

/* A tag and a big-endian number of `width` bytes. */
static void
put(struct buf *b, uint8_t tag, uint64_t v, unsigned width)
{
	uint8_t bytes[9] = { tag };
	unsigned i;

	for (i = width; i > 0; i--, v >>= 8)
		bytes[i] = (uint8_t)v;
	buf_add(b, bytes, width + 1);
}

void
pack_nil(struct buf *b)
{
	put(b, 0xc0, 0, 0);
}

void
pack_bool(struct buf *b, bool v)
{
	put(b, v ? 0xc3 : 0xc2, 0, 0);
}

void
pack_uint(struct buf *b, uint64_t v)
{
	if (v <= 0x7f)
		put(b, (uint8_t)v, 0, 0);
	else if (v <= UINT8_MAX)
		put(b, 0xcc, v, 1);
	else if (v <= UINT16_MAX)
		put(b, 0xcd, v, 2);
	else if (v <= UINT32_MAX)
		put(b, 0xce, v, 4);
	else
		put(b, 0xcf, v, 8);
}

void
pack_int(struct buf *b, int64_t v)
{
	if (v >= 0)
		pack_uint(b, (uint64_t)v);
	else if (v >= -32)
		put(b, (uint8_t)v, 0, 0);
	else if (v >= INT8_MIN)
		put(b, 0xd0, (uint64_t)v, 1);
	else if (v >= INT16_MIN)
		put(b, 0xd1, (uint64_t)v, 2);
	else if (v >= INT32_MIN)
		put(b, 0xd2, (uint64_t)v, 4);
	else
		put(b, 0xd3, (uint64_t)v, 8);
}

void
pack_real(struct buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	put(b, 0xcb, bits, 8);
}

static void
put_count(struct buf *b, uint64_t n, uint8_t fix, unsigned fix_max, uint8_t tag16)
{
	if (n <= fix_max)
		put(b, (uint8_t)(fix | n), 0, 0);
	else if (n <= UINT16_MAX)
		put(b, tag16, n, 2);
	else if (n <= UINT32_MAX)
		put(b, (uint8_t)(tag16 + 1), n, 4);
	else
		b->failed = true;
}

void
pack_str_n(struct buf *b, const void *p, size_t n)
{
	if (n > 31 && n <= UINT8_MAX)
		put(b, 0xd9, n, 1);
	else
		put_count(b, n, 0xa0, 31, 0xda);
	buf_add(b, p, n);
}

void
pack_str(struct buf *b, const char *text)
{
	pack_str_n(b, text, strlen(text));
}

void
pack_bin(struct buf *b, const void *p, size_t n)
{
	if (n <= UINT8_MAX)
		put(b, 0xc4, n, 1);
	else
		put_count(b, n, 0, 0, 0xc5);
	buf_add(b, p, n);
}

void
pack_array(struct buf *b, uint32_t count)
{
	put_count(b, count, 0x90, 15, 0xdc);
}

void
pack_map(struct buf *b, uint32_t pairs)
{
	put_count(b, pairs, 0x80, 15, 0xde);
}

void
pack_raw(struct buf *b, struct slice value)
{
	buf_add(b, value.p, value.n);
}

struct pair {
	struct slice key, value; /* the key's text; the raw value */
};

static int
compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
	int r = n > 0 ? memcmp(x->key.p, y->key.p, n) : 0;

	if (r != 0)
		return r;
	return x->key.n < y->key.n ? -1 : x->key.n > y->key.n;
}

static int canonical(struct slice *s, struct buf *b);

static int
canonical_map(struct slice *s, uint32_t count, struct buf *b)
{
	struct pair few[PAIRS_INLINE], *pairs = few;
	uint32_t i;
	int r = 0;

	if (count > PAIRS_INLINE) {
		pairs = malloc(count * sizeof *pairs);
		if (pairs == NULL)
			return -ENOMEM;
	}
	for (i = 0; i < count; i++) {
		pairs[i].key = head(s).bytes;
		pairs[i].value = value_skip(s).raw;
	}
	qsort(pairs, count, sizeof *pairs, compare_pairs);
	pack_map(b, count);
	for (i = 0; i < count && r == 0; i++) {
		pack_str_n(b, pairs[i].key.p, pairs[i].key.n);
		r = canonical(&pairs[i].value, b);
	}
	if (pairs != few)
		free(pairs);
	return r;
}

/* Recursion is as deep as the walk let the value be. */
static int
canonical(struct slice *s, struct buf *b)
{
	const uint8_t *start = s->p;
	struct value v = head(s);
	uint32_t i;
	int r = 0;

	if (v.type == VALUE_MAP)
		return canonical_map(s, v.count, b);
	buf_add(b, start, (size_t)(s->p - start));
	if (v.type == VALUE_ARRAY)
		for (i = 0; i < v.count && r == 0; i++)
			r = canonical(s, b);
	return r;
}

int
value_canonical(struct slice value, struct buf *b)
{
	int r = canonical(&value, b);

	return r < 0 ? r : b->failed ? -ENOMEM : 0;
}
