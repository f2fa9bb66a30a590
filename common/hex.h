/*
 * hex: lower-case hexadecimal, both ways.  Pure.
 */
#ifndef COMMON_HEX_H
#define COMMON_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes 2 * `n` digits and a NUL. */
void hex_encode(const uint8_t *p, size_t n, char *out);
/* True if `text` is exactly 2 * `n` digits, of either case, which are then in `ret`. */
bool hex_decode(const char *text, uint8_t *ret, size_t n);

#endif /* COMMON_HEX_H */
