/*
 * walk: looks at every byte of a MessagePack value before anything else does.
 *
 * msgpack-c allocates by the count in a header, so no header is believed until its
 * elements are known to be there.  The walk refuses, at every depth: truncation, bytes
 * left over, depth over VALUE_DEPTH_MAX, more than VALUE_NODES_MAX values, extension
 * types, the byte 0xc1, keys that are not strings, duplicate keys, invalid UTF-8,
 * integers and lengths that are not in their shortest form, floats that are not 64 bits
 * wide or not finite.  Keys count as values; arrays and maps nest, scalars do not.  What
 * passes has exactly one meaning: what was decided and what is executed are the same
 * value.  Duplicate keys cost O(n log n) at worst.  Pure.
 */
#ifndef COMMON_WALK_H
#define COMMON_WALK_H

#include "common/protocol.h"

/*
 * Checks that `n` bytes are exactly one value.  Returns 0; -EPROTO with `fault` set;
 * -ENOMEM.
 */
int walk_value(const uint8_t *p, size_t n, struct fault *fault);

/*
 * Iteration over values that a walk has passed: no bounds are checked again, except by
 * assert().
 */
enum value_type {
	VALUE_NIL,
	VALUE_BOOL,
	VALUE_UINT, /* >= 0 */
	VALUE_INT, /* < 0 */
	VALUE_FLOAT,
	VALUE_STR,
	VALUE_BIN,
	VALUE_ARRAY,
	VALUE_MAP,
};

struct value {
	enum value_type type;
	union {
		bool boolean;
		uint64_t uint;
		int64_t sint;
		double real;
		struct slice bytes; /* STR, BIN */
		uint32_t count; /* ARRAY: elements; MAP: pairs */
	};
	struct slice raw; /* the whole value, header included */
};

/* Reads the value at the front of `s` and moves `s` past its header: past the whole
 * value for scalars, to the first element for arrays and maps.  Finding the end of `raw`
 * reads an array or map to its end: use value_skip() where the parts do not matter. */
struct value value_next(struct slice *s);
/* The same, but `raw` of an array or map is its header only: costs no more than that. */
struct value value_open(struct slice *s);
/* Reads the value at the front of `s` and moves `s` past all of it. */
struct value value_skip(struct slice *s);
/* Reads the key at the front of `s` and moves `s` to its value. */
struct slice value_key(struct slice *s);
/* The value of `key` in the map `map`; false if it has none. */
bool value_get(struct slice map, const char *key, struct value *ret);

/*
 * How deep arrays and maps nest in `value` (0: a scalar) and how many values it holds, itself
 * and keys included.  Of a value that a walk has passed.
 */
void value_measure(struct slice value, unsigned *ret_depth, uint32_t *ret_nodes);

/* Writers of canonical values, for what is built by hand. */
void pack_nil(struct buf *b);
void pack_bool(struct buf *b, bool v);
void pack_uint(struct buf *b, uint64_t v);
void pack_int(struct buf *b, int64_t v);
void pack_real(struct buf *b, double v);
void pack_str_n(struct buf *b, const void *p, size_t n);
static inline void
pack_str(struct buf *b, const char *text)
{
	pack_str_n(b, text, strlen(text));
}
void pack_bin(struct buf *b, const void *p, size_t n);
void pack_array(struct buf *b, uint32_t count);
void pack_map(struct buf *b, uint32_t pairs);
void pack_raw(struct buf *b, struct slice value);

/*
 * Canonical form for digests: map keys sorted by bytes, everything else as it is.
 * Appends to `b`; returns 0 or -ENOMEM.
 */
int value_canonical(struct slice value, struct buf *b);
/* Is it in that form as it stands?  Then nothing need be copied. */
bool value_is_canonical(struct slice value);

#endif /* COMMON_WALK_H */
