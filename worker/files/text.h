/*
 * text: UTF-8, as this provider needs it.  Pure.
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

#endif /* WORKER_FILES_TEXT_H */
