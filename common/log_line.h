/*
 * log_line: one line of the log, bounded and harmless, as text or as JSON.  Of log.c.
 */
#ifndef COMMON_LOG_LINE_H
#define COMMON_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_BYTES 2048 /* at most PIPE_BUF */

struct log_line {
	char text[LOG_LINE_BYTES];
	size_t n, cap; /* `cap`: what may be filled */
};

/* Appends as it is; false, and nothing is appended, if there is no room. */
bool log_line_add(struct log_line *l, const char *p, size_t n);
/* Appends text for a terminal: what could steer one as \xNN.  False: only a part had room. */
bool log_line_add_text(struct log_line *l, const char *text);
/* Appends the inside of a JSON string, in which nothing steers a terminal, either; bytes that
 * are no UTF-8 are U+FFFD.  False: only a part had room. */
bool log_line_add_json(struct log_line *l, const char *text);
/* Appends an instant, ms since 1970, as 2027-01-01T00:00:00.000Z; without the C library, which
 * would open a file for it. */
bool log_line_add_instant(struct log_line *l, uint64_t ms);

#endif /* COMMON_LOG_LINE_H */
