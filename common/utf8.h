/*
 * utf8: strictly: no surrogates, no overlong forms, nothing beyond U+10FFFF.  Pure.
 */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* utf8_next() for what is not plain ASCII. */
int utf8_decode(const uint8_t *p, size_t n, uint32_t *ret);

/*
 * The character at the front of `n` > 0 bytes.  Returns its length, 1..4, and sets `*ret`;
 * 0 if the bytes end within a character that could still become valid; -1 for a byte that
 * begins none.
 */
static inline int
utf8_next(const uint8_t *p, size_t n, uint32_t *ret)
{
	*ret = *p;
	return *p < 0x80 ? 1 : utf8_decode(p, n, ret);
}

/* 16 bytes that stand anywhere; a vector register where the machine has one. */
typedef uint64_t utf8_block __attribute__((vector_size(16), aligned(1), may_alias));

/* Are these bytes, at most 64 of them, ASCII?  By words, of which the last two may overlap. */
static inline bool
utf8_is_short_ascii(const uint8_t *p, size_t n)
{
	uint64_t head, tail;
	uint32_t half_head, half_tail;

	if (n >= 16) {
		utf8_block all = *(const utf8_block *)(p + n - 16);

		for (size_t i = 0; i + 16 < n; i += 16)
			all |= *(const utf8_block *)(p + i);
		head = all[0];
		tail = all[1];
	} else if (n >= 8) {
		memcpy(&head, p, 8);
		memcpy(&tail, p + n - 8, 8);
	} else if (n >= 4) {
		memcpy(&half_head, p, 4);
		memcpy(&half_tail, p + n - 4, 4);
		head = half_head;
		tail = half_tail;
	} else {
		return n == 0 || (p[0] | p[n / 2] | p[n - 1]) < 0x80;
	}
	return ((head | tail) & 0x8080808080808080u) == 0;
}

/* utf8_valid() for any bytes. */
bool utf8_valid_long(const uint8_t *p, size_t n);

/* Most strings are names and ids. */
static inline bool
utf8_valid(const uint8_t *p, size_t n)
{
	return (n <= 64 && utf8_is_short_ascii(p, n)) || utf8_valid_long(p, n);
}

/* How many bytes of `n` valid ones are at most `max` and end with a character. */
static inline size_t
utf8_cut(const uint8_t *p, size_t n, size_t max)
{
	if (n <= max)
		return n;
	while (max > 0 && (p[max] & 0xc0) == 0x80)
		max--;
	return max;
}

/* A character that a terminal could obey, or that hides: controls, marks that turn the reading
 * direction round, line separators, tags. */
bool utf8_is_control(uint32_t c);

#endif /* COMMON_UTF8_H */
