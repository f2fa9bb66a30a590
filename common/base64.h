/*
 * base64: RFC 4648, with padding, both ways.  Pure.
 */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that base64_encode() writes for `n` bytes. */
size_t base64_size(size_t n);
/* `out` has room for base64_size(n); no NUL is added. */
void base64_encode(const uint8_t *p, size_t n, char *out);
/*
 * Strictly: alphabet, padding, no spare bits.  `out` has room for n / 4 * 3.  Returns 0 and
 * sets `*ret_n`; -EINVAL.
 */
int base64_decode(const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n);

#endif /* COMMON_BASE64_H */
