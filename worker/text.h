/*
 * text: paths and numbers put together in a buffer of the caller's, without a library.
 */
#ifndef WORKER_TEXT_H
#define WORKER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
	char *buf;
	size_t cap, n;
	bool full; /* something did not fit: what is there is not to be used */
};

#define TEXT(array) ((struct text){ .buf = (array), .cap = sizeof(array) })

/* Appends `n` bytes; there is always a NUL behind what fits. */
static inline void
text_add(struct text *t, const char *s, size_t n)
{
	if (n >= t->cap - t->n) {
		t->full = true;
		n = t->cap - t->n - 1;
	}
	memcpy(t->buf + t->n, s, n);
	t->n += n;
	t->buf[t->n] = '\0';
}

static inline void
text_add_string(struct text *t, const char *s)
{
	text_add(t, s, strlen(s));
}

static inline void
text_add_number(struct text *t, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	text_add(t, digits + at, sizeof(digits) - at);
}

#endif /* WORKER_TEXT_H */
