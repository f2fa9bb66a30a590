/*
 * put: the forms of MessagePack, the shortest each, into room that its caller has made.
 *
 * Every function returns the end of what it wrote, for which it needs PUT_MAX bytes of room,
 * used or not, and for strings and binaries as many more as they have.
 */
#ifndef COMMON_PUT_H
#define COMMON_PUT_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PUT_MAX 9 /* bytes of a tag and the number behind it */

/* A tag, and a number of `width` bytes: of the eight that are written, the first. */
static inline uint8_t *
put_number(uint8_t *p, uint8_t tag, uint64_t v, unsigned width)
{
	v = htobe64(v << (64 - 8 * width));
	*p = tag;
	memcpy(p + 1, &v, sizeof v);
	return p + 1 + width;
}

static inline uint8_t *
put_byte(uint8_t *p, uint8_t tag)
{
	*p = tag;
	return p + 1;
}

static inline uint8_t *
put_uint(uint8_t *p, uint64_t v)
{
	return v <= 0x7f	  ? put_byte(p, (uint8_t)v)
	    : v <= UINT8_MAX  ? put_number(p, 0xcc, v, 1)
	    : v <= UINT16_MAX ? put_number(p, 0xcd, v, 2)
	    : v <= UINT32_MAX ? put_number(p, 0xce, v, 4)
			      : put_number(p, 0xcf, v, 8);
}

/* Of a string, a binary: how many bytes follow. */
static inline uint8_t *
put_str_head(uint8_t *p, uint32_t n)
{
	return n <= 31	      ? put_byte(p, (uint8_t)(0xa0 | n))
	    : n <= UINT8_MAX  ? put_number(p, 0xd9, n, 1)
	    : n <= UINT16_MAX ? put_number(p, 0xda, n, 2)
			      : put_number(p, 0xdb, n, 4);
}

static inline uint8_t *
put_bin_head(uint8_t *p, uint32_t n)
{
	return n <= UINT8_MAX ? put_number(p, 0xc4, n, 1)
	    : n <= UINT16_MAX ? put_number(p, 0xc5, n, 2)
			      : put_number(p, 0xc6, n, 4);
}

static inline uint8_t *
put_array(uint8_t *p, uint32_t n)
{
	return n <= 15	      ? put_byte(p, (uint8_t)(0x90 | n))
	    : n <= UINT16_MAX ? put_number(p, 0xdc, n, 2)
			      : put_number(p, 0xdd, n, 4);
}

static inline uint8_t *
put_map(uint8_t *p, uint32_t n)
{
	return n <= 15	      ? put_byte(p, (uint8_t)(0x80 | n))
	    : n <= UINT16_MAX ? put_number(p, 0xde, n, 2)
			      : put_number(p, 0xdf, n, 4);
}

/* Bytes as they are.  Most are names and ids: by words that overlap, as a call of memcpy()
 * is more than all of this. */
static inline uint8_t *
put_bytes(uint8_t *p, const uint8_t *from, size_t n)
{
	if (n > 32) {
		memcpy(p, from, n);
	} else if (n >= 16) {
		memcpy(p, from, 16);
		memcpy(p + n - 16, from + n - 16, 16);
	} else if (n >= 8) {
		memcpy(p, from, 8);
		memcpy(p + n - 8, from + n - 8, 8);
	} else if (n >= 4) {
		memcpy(p, from, 4);
		memcpy(p + n - 4, from + n - 4, 4);
	} else {
		for (size_t i = 0; i < n; i++)
			p[i] = from[i];
	}
	return p + n;
}

/* Out of line: there are many of them. */
uint8_t *put_str(uint8_t *p, const void *text, size_t n);

#endif /* COMMON_PUT_H */
