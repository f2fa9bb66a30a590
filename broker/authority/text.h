/*
 * text: the few questions about strings that authority asks.  Pure.
 */
#ifndef BROKER_AUTHORITY_TEXT_H
#define BROKER_AUTHORITY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes one UTF-8 character out of `n` > 0 bytes.  Returns its length in bytes and sets
 * `*ret`; 0 if there is none: truncated, overlong, a surrogate, beyond U+10FFFF.
 */
size_t text_character(const uint8_t *p, size_t n, uint32_t *ret);

/* The same, without a call for what most text is made of. */
static inline size_t
text_next(const uint8_t *p, size_t n, uint32_t *ret)
{
	*ret = *p;
	return *p < 0x80 ? 1 : text_character(p, n, ret);
}

/*
 * True for 1..`max` bytes of UTF-8 without control characters; false for NULL.  Looks at
 * no more than `max` + 1 bytes.
 */
bool text_is_plain(const char *text, size_t max);

#endif /* BROKER_AUTHORITY_TEXT_H */
