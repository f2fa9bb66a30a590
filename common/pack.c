/*
 * The writers of walk.h: what put.h writes, into a buffer that grows.
 */
#include "common/put.h"
#include "common/walk.h"

uint8_t *
put_str(uint8_t *p, const void *text, size_t n)
{
	return put_bytes(put_str_head(p, (uint32_t)n), text, n);
}

/* Room for a header and `n` bytes; NULL if there is none. */
static uint8_t *
room(struct buf *b, size_t n)
{
	if (n <= UINT32_MAX)
		return buf_reserve(b, PUT_MAX + n);
	b->failed = true;
	return NULL;
}

void
pack_nil(struct buf *b)
{
	uint8_t *p = room(b, 0);

	if (p != NULL)
		buf_end(b, put_byte(p, 0xc0));
}

void
pack_bool(struct buf *b, bool v)
{
	uint8_t *p = room(b, 0);

	if (p != NULL)
		buf_end(b, put_byte(p, v ? 0xc3 : 0xc2));
}

void
pack_uint(struct buf *b, uint64_t v)
{
	uint8_t *p = room(b, 0);

	if (p != NULL)
		buf_end(b, put_uint(p, v));
}

static uint8_t *
put_negative(uint8_t *p, int64_t v)
{
	return v >= -32	     ? put_byte(p, (uint8_t)v)
	    : v >= INT8_MIN  ? put_number(p, 0xd0, (uint64_t)v, 1)
	    : v >= INT16_MIN ? put_number(p, 0xd1, (uint64_t)v, 2)
	    : v >= INT32_MIN ? put_number(p, 0xd2, (uint64_t)v, 4)
			     : put_number(p, 0xd3, (uint64_t)v, 8);
}

void
pack_int(struct buf *b, int64_t v)
{
	uint8_t *p = room(b, 0);

	if (p != NULL)
		buf_end(b, v >= 0 ? put_uint(p, (uint64_t)v) : put_negative(p, v));
}

void
pack_real(struct buf *b, double v)
{
	uint8_t *p = room(b, 0);
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	if (p != NULL)
		buf_end(b, put_number(p, 0xcb, bits, 8));
}

void
pack_str_n(struct buf *b, const void *text, size_t n)
{
	uint8_t *p = room(b, n);

	if (p != NULL)
		buf_end(b, put_str(p, text, n));
}

void
pack_bin(struct buf *b, const void *bytes, size_t n)
{
	uint8_t *p = room(b, n);

	if (p != NULL)
		buf_end(b, put_bytes(put_bin_head(p, (uint32_t)n), bytes, n));
}

void
pack_array(struct buf *b, uint32_t count)
{
	uint8_t *p = room(b, 0);

	if (p != NULL)
		buf_end(b, put_array(p, count));
}

void
pack_map(struct buf *b, uint32_t pairs)
{
	uint8_t *p = room(b, 0);

	if (p != NULL)
		buf_end(b, put_map(p, pairs));
}

void
pack_raw(struct buf *b, struct slice value)
{
	buf_add(b, value.p, value.n);
}
