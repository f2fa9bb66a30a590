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
	uint32_t offset, n;
};

/* An open array or map. */
struct level {
	uint32_t left; /* values still to come; in a map an even number means a key is next */
	uint32_t first_key; /* of this map, in walk.keys */
	bool map;
};

struct walk {
	const uint8_t *p;
	size_t n, at;
	struct level level[VALUE_DEPTH_MAX];
	unsigned depth;
	uint32_t nodes;
	struct key *keys;
	uint32_t nkeys, keys_cap;
	struct key keys_inline[KEYS_INLINE];
	const char *rule;
};

/* What a header announces: bytes that follow it, or values. */
struct head {
	bool is_bytes, is_utf8, is_container, is_map;
	uint32_t count;
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

	if (w->n - w->at < width)
		return bad(w, "truncated value");
	for (i = 0; i < width; i++)
		v = v << 8 | w->p[w->at + i];
	w->at += width;
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

/* Reads one header, and for scalars of fixed size all of the value. */
static int
header(struct walk *w, struct head *h)
{
	static const uint32_t least_bin[] = { 0, 1u << 8, 1u << 16 };
	static const uint32_t least_str[] = { 32, 1u << 8, 1u << 16 };
	uint8_t tag = w->p[w->at++];

	*h = (struct head) { 0 };
	if (tag <= 0x7f || tag >= 0xe0)
		return 0;
	if (tag <= 0x9f) {
		h->is_container = true;
		h->is_map = tag <= 0x8f;
		h->count = tag & 0x0f;
		return 0;
	}
	if (tag <= 0xbf) {
		h->is_bytes = h->is_utf8 = true;
		h->count = tag & 0x1f;
		return 0;
	}
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
		h->is_bytes = true;
		return length(w, 1u << (tag - 0xc4), least_bin[tag - 0xc4], &h->count);
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
		h->is_bytes = h->is_utf8 = true;
		return length(w, 1u << (tag - 0xd9), least_str[tag - 0xd9], &h->count);
	case 0xdc:
	case 0xdd:
	case 0xde:
	case 0xdf:
		h->is_container = true;
		h->is_map = tag >= 0xde;
		return length(w, tag & 1 ? 4 : 2, tag & 1 ? 1u << 16 : 16, &h->count);
	default:
		return bad(w, "extension type");
	}
}

static int
remember_key(struct walk *w, size_t offset, uint32_t n)
{
	if (w->nkeys == w->keys_cap) {
		uint32_t cap = w->keys_cap * 4;
		struct key *grown;

		/* The count of values bounds this: 256 KiB at most. */
		grown = malloc(cap * sizeof *grown);
		if (grown == NULL)
			return -ENOMEM;
		memcpy(grown, w->keys, w->nkeys * sizeof *grown);
		if (w->keys != w->keys_inline)
			free(w->keys);
		w->keys = grown;
		w->keys_cap = cap;
	}
	w->keys[w->nkeys++] = (struct key) { (uint32_t)offset, n };
	return 0;
}

static int
compare_keys(const void *a, const void *b, void *bytes)
{
	const struct key *x = a, *y = b;
	const uint8_t *p = bytes;

	/* Any order will do; lengths are cheapest. */
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return memcmp(p + x->offset, p + y->offset, x->n);
}

/* The map on top is complete: no two of its keys may be equal. */
static int
close_map(struct walk *w, const struct level *level)
{
	struct key *key = w->keys + level->first_key;
	uint32_t n = w->nkeys - level->first_key, i, j;
	uint8_t *bytes = (uint8_t *)(uintptr_t)w->p;

	w->nkeys = level->first_key;
	if (n <= PAIRWISE_MAX) {
		for (i = 1; i < n; i++)
			for (j = 0; j < i; j++)
				if (compare_keys(key + i, key + j, bytes) == 0)
					goto duplicate;
		return 0;
	}
	qsort_r(key, n, sizeof *key, compare_keys, bytes);
	for (i = 1; i < n; i++)
		if (compare_keys(key + i, key + i - 1, bytes) == 0)
			goto duplicate;
	return 0;
duplicate:
	w->at = key[i].offset;
	return bad(w, "duplicate key");
}

static int
open_container(struct walk *w, const struct head *h)
{
	uint64_t values = (uint64_t)h->count << h->is_map;

	/* A value is at least one byte: no count is believed beyond the bytes that are left. */
	if (values > w->n - w->at)
		return bad(w, "truncated value");
	if (values > VALUE_NODES_MAX - w->nodes)
		return bad(w, "too many values");
	if (w->depth == VALUE_DEPTH_MAX)
		return bad(w, "nested too deep");
	w->nodes += (uint32_t)values;
	w->level[w->depth++] = (struct level) { (uint32_t)values, w->nkeys, h->is_map };
	return 0;
}

static int
one(struct walk *w, bool is_key)
{
	size_t start = w->at;
	struct head h;
	int r;

	if (w->at == w->n)
		return bad(w, "truncated value");
	r = header(w, &h);
	if (r < 0)
		return r;
	if (is_key && !h.is_utf8) {
		w->at = start;
		return bad(w, "key is not a string");
	}
	if (h.is_container)
		return open_container(w, &h);
	if (!h.is_bytes)
		return 0;
	if (h.count > w->n - w->at)
		return bad(w, "truncated value");
	if (h.is_utf8 && !utf8_valid(w->p + w->at, h.count))
		return bad(w, "invalid UTF-8");
	if (is_key && (r = remember_key(w, w->at, h.count)) < 0)
		return r;
	w->at += h.count;
	return 0;
}

static int
all(struct walk *w)
{
	int r = one(w, false);

	while (r == 0 && w->depth > 0) {
		struct level *level = &w->level[w->depth - 1];

		if (level->left == 0) {
			w->depth--;
			if (level->map)
				r = close_map(w, level);
			continue;
		}
		level->left--;
		r = one(w, level->map && (level->left & 1));
	}
	if (r == 0 && w->at != w->n)
		return bad(w, "bytes left over");
	return r;
}

int
walk_value(const uint8_t *p, size_t n, struct fault *fault)
{
	struct walk w;
	int r;

	w.p = p;
	w.n = n;
	w.at = 0;
	w.depth = 0;
	w.nodes = 1;
	w.keys = w.keys_inline;
	w.nkeys = 0;
	w.keys_cap = KEYS_INLINE;
	w.rule = NULL;
	r = n > UINT32_MAX ? bad(&w, "value too long") : all(&w);
	if (w.keys != w.keys_inline)
		free(w.keys);
	if (r == -EPROTO)
		*fault = (struct fault) { .rule = w.rule, .offset = w.at };
	return r;
}
