/*
 * utf8: one character at a time, strictly: no surrogates, no overlong forms, nothing
 * beyond U+10FFFF.  Pure.
 */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stddef.h>
#include <stdint.h>

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

#endif /* COMMON_UTF8_H */
