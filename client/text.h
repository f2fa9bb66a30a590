/*
 * text: untrusted bytes on their way to a terminal.
 *
 * What a runtime wrote may move the cursor, rename the window, type for the user or turn
 * the reading direction round.  Here it becomes visible instead: C0 but newline and tab,
 * DEL, C1, bidirectional controls and line separators, and every byte that is not UTF-8.
 */
#ifndef CLIENT_TEXT_H
#define CLIENT_TEXT_H

#include <stdbool.h>

#include "common/protocol.h"

/* Bytes of a character that the last chunk began; starts as zeroes. */
struct text_filter {
	uint8_t held[4];
	size_t n;
};

/* Appends `n` bytes to `out`, escaped; holds back an incomplete character at the end. */
void text_escape(struct text_filter *f, const uint8_t *p, size_t n, struct buf *out);
/* The stream is over: what was held back is shown as bytes. */
void text_escape_end(struct text_filter *f, struct buf *out);
/* A whole string that must stay on its line: newline and tab are escaped, too. */
void text_escape_line(struct slice s, struct buf *out);

/* Appends a line of ours, of 511 bytes at most; nothing untrusted is in it. */
void text_addf(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Appends wall-clock `ms` in UTC, seconds by `format` as strftime(3), then milliseconds, if
 * `fraction`, behind a dot.  False, and its number, if it is beyond the calendar.
 */
bool text_add_time(struct buf *out, uint64_t ms, const char *format, bool fraction);

/* "caisson: ...", one escaped line and one write(2) on standard error. */
void text_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* CLIENT_TEXT_H */
