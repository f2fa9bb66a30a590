#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/utf8.h"

#define LINE_MAX_BYTES 1024 /* at most PIPE_BUF: lines of several processes do not mix */
#define EXIT_CANNOT    125

static const char *log_name = "caisson";
static enum log_level log_level = LOG_INFO_;
static const char *const level_names[] = {
	[LOG_ERROR_] = "error",
	[LOG_WARN_] = "warning",
	[LOG_INFO_] = "info",
	[LOG_DEBUG_] = "debug",
};

struct line {
	char text[LINE_MAX_BYTES];
	size_t n;
};

/* Keeps room for "..." and the newline. */
static bool
line_add(struct line *l, const char *p, size_t n)
{
	if (n > sizeof l->text - 4 - l->n)
		return false;
	memcpy(l->text + l->n, p, n);
	l->n += n;
	return true;
}

/* Bytes of the character at `p` if it may reach a terminal as it is; 0 if it may not. */
static size_t
harmless(const uint8_t *p, size_t n)
{
	size_t len = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

	if (*p < 0x20 || *p == 0x7f)
		return 0;
	if (len == 1)
		return 1;
	if (len > n || !utf8_valid(p, len))
		return 0;
	if (p[0] == 0xc2 && p[1] < 0xa0) /* C1 controls */
		return 0;
	/* Line separators and what turns the direction of text: U+2028-202E, U+2066-2069. */
	if (p[0] == 0xe2 && p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae)
		return 0;
	if (p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9)
		return 0;
	return len;
}

static bool
line_add_escaped(struct line *l, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t left = strlen(text), n;
	char escape[5];

	while (left > 0) {
		n = harmless(p, left);
		if (n > 0) {
			if (!line_add(l, (const char *)p, n))
				return false;
		} else {
			snprintf(escape, sizeof escape, "\\x%02x", *p);
			if (!line_add(l, escape, 4))
				return false;
			n = 1;
		}
		p += n;
		left -= n;
	}
	return true;
}

static void
log_line(enum log_level level, const char *fmt, va_list ap)
{
	char text[LINE_MAX_BYTES];
	struct line l = { .n = 0 };
	int saved = errno, n;
	ssize_t ignored;

	if (level > log_level)
		return;
	n = vsnprintf(text, sizeof text, fmt, ap);
	if (n < 0)
		text[0] = '\0';
	if (!line_add_escaped(&l, log_name) || !line_add(&l, ": ", 2) ||
	    !line_add_escaped(&l, level_names[level]) || !line_add(&l, ": ", 2) ||
	    !line_add_escaped(&l, text) || n >= (int)sizeof text) {
		memcpy(l.text + l.n, "...", 3);
		l.n += 3;
	}
	l.text[l.n++] = '\n';
	/* Nobody could be told of a failure here. */
	ignored = write(STDERR_FILENO, l.text, l.n);
	(void)ignored;
	errno = saved;
}

void
log_init(const char *name, enum log_level level)
{
	log_name = name;
	log_level = level;
}

#define LOG_FUNCTION(function, level)	\
	void				\
	function(const char *fmt, ...)	\
	{				\
		va_list ap;		\
					\
		va_start(ap, fmt);	\
		log_line(level, fmt, ap);	\
		va_end(ap);		\
	}

LOG_FUNCTION(log_error, LOG_ERROR_)
LOG_FUNCTION(log_warn, LOG_WARN_)
LOG_FUNCTION(log_info, LOG_INFO_)
LOG_FUNCTION(log_debug, LOG_DEBUG_)

void
fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_ERROR_, fmt, ap);
	va_end(ap);
	exit(EXIT_CANNOT);
}
