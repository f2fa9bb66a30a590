#include "common/walk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Maps up to this many pairs are sorted without an allocation. */
#define PAIRS_INLINE 16

/*
 * Values are filled in place, member by member: a struct that is built and then copied
 * costs more than all the rest of reading a small value.
 */
static inline void
take(struct slice *s, size_t n)
{
	assert(n <= s->n);
	s->p += n;
	s->n -= n;
}

static inline uint64_t
take_number(struct slice *s, unsigned width)
{
	const uint8_t *p = s->p;
	uint64_t v = 0;

	take(s, width);
	while (width-- > 0)
		v = v << 8 | *p++;
	return v;
}

static inline void
set_bytes(struct value *v, struct slice *s, enum value_type type, size_t n)
{
	v->type = type;
	v->bytes.p = s->p;
	v->bytes.n = n;
	take(s, n);
}

static inline void
set_uint(struct value *v, uint64_t u)
{
	v->type = VALUE_UINT;
	v->uint = u;
}

static inline void
set_int(struct value *v, int64_t i)
{
	v->type = VALUE_INT;
	v->sint = i;
}

static inline void
set_count(struct value *v, enum value_type type, uint64_t count)
{
	v->type = type;
	v->count = (uint32_t)count;
}

static inline void
set_bool(struct value *v, bool boolean)
{
	v->type = VALUE_BOOL;
	v->boolean = boolean;
}

static void
set_real(struct value *v, uint64_t bits)
{
	v->type = VALUE_FLOAT;
	memcpy(&v->real, &bits, sizeof v->real);
}

/* What has a tag of its own. */
static void
tagged(struct slice *s, uint8_t tag, struct value *v)
{
	switch (tag) {
	case 0xc0: v->type = VALUE_NIL; return;
	case 0xc2: set_bool(v, false); return;
	case 0xc3: set_bool(v, true); return;
	case 0xc4: set_bytes(v, s, VALUE_BIN, take_number(s, 1)); return;
	case 0xc5: set_bytes(v, s, VALUE_BIN, take_number(s, 2)); return;
	case 0xc6: set_bytes(v, s, VALUE_BIN, take_number(s, 4)); return;
	case 0xcb: set_real(v, take_number(s, 8)); return;
	case 0xcc: set_uint(v, take_number(s, 1)); return;
	case 0xcd: set_uint(v, take_number(s, 2)); return;
	case 0xce: set_uint(v, take_number(s, 4)); return;
	case 0xcf: set_uint(v, take_number(s, 8)); return;
	case 0xd0: set_int(v, (int8_t)take_number(s, 1)); return;
	case 0xd1: set_int(v, (int16_t)take_number(s, 2)); return;
	case 0xd2: set_int(v, (int32_t)take_number(s, 4)); return;
	case 0xd3: set_int(v, (int64_t)take_number(s, 8)); return;
	case 0xd9: set_bytes(v, s, VALUE_STR, take_number(s, 1)); return;
	case 0xda: set_bytes(v, s, VALUE_STR, take_number(s, 2)); return;
	case 0xdb: set_bytes(v, s, VALUE_STR, take_number(s, 4)); return;
	case 0xdc: set_count(v, VALUE_ARRAY, take_number(s, 2)); return;
	case 0xdd: set_count(v, VALUE_ARRAY, take_number(s, 4)); return;
	case 0xde: set_count(v, VALUE_MAP, take_number(s, 2)); return;
	case 0xdf: set_count(v, VALUE_MAP, take_number(s, 4)); return;
	}
	assert(!"a value that no walk has passed");
	abort();
}

/* Everything but `raw`. */
static inline void
head(struct slice *s, struct value *v)
{
	uint8_t tag;

	assert(s->n > 0);
	tag = *s->p;
	take(s, 1);
	if (tag <= 0x7f)
		set_uint(v, tag);
	else if (tag <= 0x8f)
		set_count(v, VALUE_MAP, tag & 0x0f);
	else if (tag <= 0x9f)
		set_count(v, VALUE_ARRAY, tag & 0x0f);
	else if (tag <= 0xbf)
		set_bytes(v, s, VALUE_STR, tag & 0x1f);
	else if (tag == 0xd9) /* ids */
		set_bytes(v, s, VALUE_STR, take_number(s, 1));
	else if (tag >= 0xe0)
		set_int(v, (int8_t)tag);
	else
		tagged(s, tag, v);
}

/* How many values follow the header of `v` as its parts. */
static inline uint64_t
parts(const struct value *v)
{
	if (v->type == VALUE_ARRAY)
		return v->count;
	return v->type == VALUE_MAP ? (uint64_t)v->count * 2 : 0;
}

static inline void
skip_parts(struct slice *s, const struct value *v)
{
	uint64_t left = parts(v);

	while (left > 0) {
		struct value part;

		head(s, &part);
		left += parts(&part) - 1;
	}
}

void
value_measure(struct slice s, unsigned *ret_depth, uint32_t *ret_nodes)
{
	uint64_t left[VALUE_DEPTH_MAX];
	unsigned depth = 0;

	*ret_depth = 0;
	*ret_nodes = 0;
	do {
		struct value v;

		while (depth > 0 && left[depth - 1] == 0)
			depth--;
		if (s.n == 0)
			return;
		head(&s, &v);
		++*ret_nodes;
		if (depth > 0)
			left[depth - 1]--;
		if (v.type != VALUE_ARRAY && v.type != VALUE_MAP)
			continue;
		assert(depth < VALUE_DEPTH_MAX);
		left[depth++] = parts(&v);
		if (depth > *ret_depth)
			*ret_depth = depth;
	} while (depth > 0);
}

struct value
value_next(struct slice *s)
{
	const uint8_t *start = s->p;
	struct slice after;
	struct value v;

	head(s, &v);
	after = *s;
	skip_parts(&after, &v);
	v.raw.p = start;
	v.raw.n = (size_t)(after.p - start);
	return v;
}

struct value
value_open(struct slice *s)
{
	const uint8_t *start = s->p;
	struct value v;

	head(s, &v);
	v.raw.p = start;
	v.raw.n = (size_t)(s->p - start);
	return v;
}

struct value
value_skip(struct slice *s)
{
	const uint8_t *start = s->p;
	struct value v;

	head(s, &v);
	skip_parts(s, &v);
	v.raw.p = start;
	v.raw.n = (size_t)(s->p - start);
	return v;
}

struct slice
value_key(struct slice *s)
{
	struct value v;

	head(s, &v);
	assert(v.type == VALUE_STR);
	return v.bytes;
}

bool
value_get(struct slice map, const char *key, struct value *ret)
{
	size_t n = strlen(key);
	struct value v, held;
	struct slice k;
	uint32_t i;

	head(&map, &v);
	if (v.type != VALUE_MAP)
		return false;
	for (i = 0; i < v.count; i++) {
		k = value_key(&map);
		held = value_skip(&map);
		if (k.n == n && memcmp(k.p, key, n) == 0) {
			*ret = held;
			return true;
		}
	}
	return false;
}

struct pair {
	struct slice key, value; /* the key's text; the raw value */
};

static int
compare_keys(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n > 0 ? memcmp(a.p, b.p, n) : 0;

	if (r != 0)
		return r;
	return a.n < b.n ? -1 : a.n > b.n;
}

static int
compare_pairs(const void *a, const void *b)
{
	return compare_keys(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static int canonical(struct slice *s, struct buf *b);

static int
canonical_map(struct slice *s, uint32_t count, struct buf *b)
{
	struct pair few[PAIRS_INLINE], *pairs = few;
	struct value key;
	uint32_t i;
	int r = 0;

	if (count > PAIRS_INLINE) {
		pairs = malloc(count * sizeof *pairs);
		if (pairs == NULL)
			return -ENOMEM;
	}
	for (i = 0; i < count; i++) {
		head(s, &key);
		pairs[i].key = key.bytes;
		pairs[i].value = value_skip(s).raw;
	}
	/* Not qsort(): glibc's asks the kernel how much memory there is, which no list
	 * allows. */
	if (heapsort(pairs, count, sizeof *pairs, compare_pairs) < 0)
		r = -ENOMEM;
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
	struct value v;
	uint32_t i;
	int r = 0;

	head(s, &v);
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

/* The value at the front of `s`, which moves past it. */
static bool
is_canonical(struct slice *s)
{
	struct value v, key;
	struct slice last = { NULL, 0 };
	uint32_t i;

	head(s, &v);
	if (v.type != VALUE_MAP && v.type != VALUE_ARRAY)
		return true;
	for (i = 0; i < v.count; i++) {
		if (v.type == VALUE_MAP) {
			head(s, &key);
			if (i > 0 && compare_keys(last, key.bytes) >= 0)
				return false;
			last = key.bytes;
		}
		if (!is_canonical(s))
			return false;
	}
	return true;
}

bool
value_is_canonical(struct slice value)
{
	return is_canonical(&value);
}
