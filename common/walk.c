#include "common/walk.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

/* Up to here keys are compared pairwise; beyond, sorted. */
#define PAIRWISE_MAX 16
/* Keys of all open maps that fit without an allocation. */
#define KEYS_INLINE 96

struct key {
	const uint8_t *p;
	uint32_t n;
};

/* An open array or map. */
struct level {
	uint32_t left; /* values still to come; in a map an even number means a key is next */
	uint32_t first_key; /* of this map, in walk.keys */
	bool map;
};

struct walk {
	const uint8_t *p, *end;
	struct level *top; /* the innermost open one; level[0] holds the value itself */
	struct level level[1 + VALUE_DEPTH_MAX];
	uint32_t nodes;
	struct key *keys;
	uint32_t nkeys, keys_cap;
	struct key keys_inline[KEYS_INLINE];
	const char *rule;
};

static int
bad(struct walk *w, const char *rule)
{
	w->rule = rule;
	return -EPROTO;
}

/* Reads a big-endian number of `width` bytes. */
static int
number(struct walk *w, unsigned width, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned i;

	if ((size_t)(w->end - w->p) < width)
		return bad(w, "truncated value");
	for (i = 0; i < width; i++)
		v = v << 8 | *w->p++;
	*ret = v;
	return 0;
}

/* A length or count of `width` bytes that needed all of them: at least `least`. */
static int
length(struct walk *w, unsigned width, uint32_t least, uint32_t *ret)
{
	uint64_t v;
	int r = number(w, width, &v);

	if (r < 0)
		return r;
	if (v < least)
		return bad(w, "length is not in its shortest form");
	*ret = (uint32_t)v;
	return 0;
}

static int
integer(struct walk *w, uint8_t tag)
{
	static const uint64_t least[] = { 128, 1u << 8, 1u << 16, (uint64_t)1 << 32 };
	static const int64_t below[] = { -32, INT8_MIN, INT16_MIN, INT32_MIN };
	unsigned log2_width = tag & 3, width = 1u << log2_width;
	uint64_t v;
	int r = number(w, width, &v);

	if (r < 0)
		return r;
	if (tag < 0xd0) /* unsigned */
		return v >= least[log2_width] ? 0
					      : bad(w, "integer is not in its shortest form");
	/* Signed forms are for what is below zero and fits no smaller one. */
	if (!(v >> (width * 8 - 1)))
		return bad(w, "integer is not in its shortest form");
	if (width < 8)
		v |= ~(uint64_t)0 << (width * 8);
	return (int64_t)v < below[log2_width] ? 0
					      : bad(w, "integer is not in its shortest form");
}

static int
real(struct walk *w)
{
	uint64_t bits;
	double v;
	int r = number(w, 8, &bits);

	if (r < 0)
		return r;
	memcpy(&v, &bits, sizeof v);
	return isfinite(v) ? 0 : bad(w, "float is not finite");
}

static int
bytes(struct walk *w, uint32_t n)
{
	if (n > (size_t)(w->end - w->p))
		return bad(w, "truncated value");
	w->p += n;
	return 0;
}

static int
text(struct walk *w, uint32_t n)
{
	if (n > (size_t)(w->end - w->p))
		return bad(w, "truncated value");
	if (!utf8_valid(w->p, n))
		return bad(w, "invalid UTF-8");
	w->p += n;
	return 0;
}

static int
open_container(struct walk *w, uint32_t count, bool map)
{
	uint64_t values = (uint64_t)count << map;

	/* A value is at least one byte: no count is believed beyond the bytes that are left. */
	if (values > (size_t)(w->end - w->p))
		return bad(w, "truncated value");
	if (values > VALUE_NODES_MAX - w->nodes)
		return bad(w, "too many values");
	if (w->top == w->level + VALUE_DEPTH_MAX)
		return bad(w, "nested too deep");
	w->nodes += (uint32_t)values;
	*++w->top = (struct level) { (uint32_t)values, w->nkeys, map };
	return 0;
}

/* What has a tag of its own: everything but small integers, short strings, small containers. */
static int
tagged(struct walk *w, uint8_t tag)
{
	static const uint32_t least_bin[] = { 0, 1u << 8, 1u << 16 };
	static const uint32_t least_str[] = { 32, 1u << 8, 1u << 16 };
	uint32_t n;
	int r;

	switch (tag) {
	case 0xc0:
	case 0xc2:
	case 0xc3:
		return 0;
	case 0xc1:
		return bad(w, "byte c1");
	case 0xc4:
	case 0xc5:
	case 0xc6:
		r = length(w, 1u << (tag - 0xc4), least_bin[tag - 0xc4], &n);
		return r < 0 ? r : bytes(w, n);
	case 0xca:
		return bad(w, "float is not 64 bits wide");
	case 0xcb:
		return real(w);
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xcf:
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
		return integer(w, tag);
	case 0xd9:
	case 0xda:
	case 0xdb:
		r = length(w, 1u << (tag - 0xd9), least_str[tag - 0xd9], &n);
		return r < 0 ? r : text(w, n);
	case 0xdc:
	case 0xdd:
	case 0xde:
	case 0xdf:
		r = length(w, tag & 1 ? 4 : 2, tag & 1 ? 1u << 16 : 16, &n);
		return r < 0 ? r : open_container(w, n, tag >= 0xde);
	default:
		return bad(w, "extension type");
	}
}

static inline int
one(struct walk *w)
{
	uint8_t tag;

	if (w->p == w->end)
		return bad(w, "truncated value");
	tag = *w->p++;
	if (tag <= 0x7f || tag >= 0xe0)
		return 0;
	if (tag >= 0xc0)
		return tagged(w, tag);
	if (tag >= 0xa0)
		return text(w, tag & 0x1f);
	return open_container(w, tag & 0x0f, tag <= 0x8f);
}

static int
grow_keys(struct walk *w)
{
	uint32_t cap = w->keys_cap * 4;
	struct key *grown;

	/* The count of values bounds this: 1.5 MiB at most. */
	grown = malloc(cap * sizeof *grown);
	if (grown == NULL)
		return -ENOMEM;
	memcpy(grown, w->keys, w->nkeys * sizeof *grown);
	if (w->keys != w->keys_inline)
		free(w->keys);
	w->keys = grown;
	w->keys_cap = cap;
	return 0;
}

/* A value that must be a string, and is remembered. */
static inline int
key(struct walk *w)
{
	const uint8_t *at = w->p;
	uint32_t n;
	int r;

	r = one(w);
	if (r < 0)
		return r;
	if ((*at & 0xe0) == 0xa0) {
		n = *at & 0x1f;
	} else if (*at >= 0xd9 && *at <= 0xdb) {
		n = (uint32_t)(w->p - at) - 1 - (1u << (*at - 0xd9));
	} else {
		w->p = at;
		return bad(w, "key is not a string");
	}
	if (w->nkeys == w->keys_cap && (r = grow_keys(w)) < 0)
		return r;
	w->keys[w->nkeys++] = (struct key) { w->p - n, n };
	return 0;
}

static int
compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	/* Any order will do; lengths are cheapest. */
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return memcmp(x->p, y->p, x->n);
}

/* The map on top is complete: no two of its keys may be equal. */
static int
close_map(struct walk *w)
{
	struct key *keys = w->keys + w->top->first_key;
	uint32_t n = w->nkeys - w->top->first_key, i, j;

	w->nkeys = w->top->first_key;
	if (n <= PAIRWISE_MAX) {
		for (i = 1; i < n; i++)
			for (j = 0; j < i; j++)
				if (keys[i].n == keys[j].n &&
				    compare_keys(keys + i, keys + j) == 0)
					goto duplicate;
		return 0;
	}
	/* Not qsort(): glibc's asks the kernel how much memory there is, which no list
	 * allows. */
	if (heapsort(keys, n, sizeof *keys, compare_keys) < 0)
		return -ENOMEM;
	for (i = 1; i < n; i++)
		if (compare_keys(keys + i, keys + i - 1) == 0)
			goto duplicate;
	return 0;
duplicate:
	w->p = keys[i].p;
	return bad(w, "duplicate key");
}

static int
all(struct walk *w)
{
	int r = 0;

	while (r == 0) {
		struct level *top = w->top;

		if (top->left > 0) {
			top->left--;
			r = top->map && (top->left & 1) ? key(w) : one(w);
		} else if (top == w->level) {
			return w->p == w->end ? 0 : bad(w, "bytes left over");
		} else {
			if (top->map)
				r = close_map(w);
			w->top--;
		}
	}
	return r;
}

int
walk_value(const uint8_t *p, size_t n, struct fault *fault)
{
	struct walk w;
	int r;

	w.p = p;
	w.end = p + n;
	w.top = w.level;
	w.level[0] = (struct level) { .left = 1 };
	w.nodes = 1;
	w.keys = w.keys_inline;
	w.nkeys = 0;
	w.keys_cap = KEYS_INLINE;
	w.rule = NULL;
	r = n > UINT32_MAX ? bad(&w, "value too long") : all(&w);
	if (w.keys != w.keys_inline)
		free(w.keys);
	if (r == -EPROTO)
		*fault = (struct fault) { .rule = w.rule, .offset = (size_t)(w.p - p) };
	return r;
}
