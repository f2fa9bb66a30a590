/*
 * text: UTF-8, base64, hex.  Pure.
 */
#ifndef WORKER_FILES_TEXT_H
#define WORKER_FILES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The length of the longest prefix of `n` bytes that is valid UTF-8.  Sets
 * `*ret_partial` if what follows it could be the beginning of one more character.
 */
size_t text_utf8(const uint8_t *p, size_t n, bool *ret_partial);

/* Reads one character of valid UTF-8 and moves `*at` past it. */
uint32_t text_next(const uint8_t *p, size_t n, size_t *at);

/* Can a path name this?  UTF-8 without separators and control characters, and without
 * white space at its ends (TU-35); what the broker would refuse, we do not offer. */
bool text_is_name(const uint8_t *p, size_t n);

/* Bytes that text_base64() writes for `n` bytes. */
size_t text_base64_size(size_t n);
/* Encodes with padding; `out` has room for text_base64_size(n); no NUL is added. */
void text_base64(const uint8_t *p, size_t n, char *out);
/*
 * Decodes strictly: alphabet, padding, no spare bits.  `out` has room for n / 4 * 3.
 * Returns 0 and sets `*ret_n`; -EINVAL.
 */
int text_unbase64(const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n);

/* Lower-case hex of `n` bytes, and a NUL. */
void text_hex(const uint8_t *p, size_t n, char *out);

#endif /* WORKER_FILES_TEXT_H */
