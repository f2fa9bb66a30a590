#include "client/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/utf8.h"

#define SAY_MAX 4096 /* bytes of a line of ours, before escaping */

static void
add_byte(struct buf *out, uint8_t byte)
{
	char text[8];

	buf_add(out, text, (size_t)snprintf(text, sizeof(text), "\\x%02x", byte));
}

static void
add_control(struct buf *out, uint32_t c)
{
	char text[16];

	if (c < 0x80) {
		add_byte(out, (uint8_t)c);
		return;
	}
	buf_add(out, text,
	    (size_t)snprintf(text, sizeof(text), c > 0xffff ? "\\U%08x" : "\\u%04x", c));
}

/* Returns how many bytes were used: all, or all but an incomplete character. */
static size_t
escape(const uint8_t *p, size_t n, bool line, struct buf *out)
{
	size_t at = 0, plain = 0; /* [plain, at) is to be copied as it is */
	uint32_t c = 0;
	int len;

	if (n == 0) /* then `p` may be NULL */
		return 0;
	while (at < n) {
		len = utf8_next(p + at, n - at, &c);
		if (len > 0 && (!utf8_is_control(c) || (!line && (c == '\n' || c == '\t')))) {
			at += (size_t)len;
			continue;
		}
		buf_add(out, p + plain, at - plain);
		if (len == 0)
			return at;
		if (len < 0)
			add_byte(out, p[at]);
		else
			add_control(out, c);
		at += len < 0 ? 1 : (size_t)len;
		plain = at;
	}
	buf_add(out, p + plain, at - plain);
	return at;
}

static void
hold(struct text_filter *f, const uint8_t *p, size_t n)
{
	memcpy(f->held, p, n);
	f->n = n;
}

void
text_escape(struct text_filter *f, const uint8_t *p, size_t n, struct buf *out)
{
	uint8_t front[sizeof(f->held) * 2];
	size_t have = f->n, take, used;

	if (have > 0) {
		/* Enough of the new bytes to end the held character, whatever they are. */
		take = n < sizeof(f->held) ? n : sizeof(f->held);
		memcpy(front, f->held, have);
		memcpy(front + have, p, take);
		used = escape(front, have + take, false, out);
		f->n = 0;
		if (used < have) { /* still incomplete, so nothing is left of `p` */
			hold(f, front + used, have + take - used);
			return;
		}
		p += used - have;
		n -= used - have;
	}
	used = escape(p, n, false, out);
	if (used < n)
		hold(f, p + used, n - used);
}

void
text_escape_end(struct text_filter *f, struct buf *out)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		add_byte(out, f->held[i]);
	f->n = 0;
}

void
text_escape_line(struct slice s, struct buf *out)
{
	size_t used = escape(s.p, s.n, true, out);

	for (; used < s.n; used++)
		add_byte(out, s.p[used]);
}

void
text_addf(struct buf *out, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	buf_add(out, line, strlen(line));
}

bool
text_add_time(struct buf *out, uint64_t ms, const char *format, bool fraction)
{
	time_t t = (time_t)(ms / 1000);
	char text[32];
	struct tm tm;

	if (ms / 1000 > UINT32_MAX || !gmtime_r(&t, &tm) ||
	    strftime(text, sizeof(text), format, &tm) == 0) {
		text_addf(out, "%llu", (unsigned long long)ms);
		return false;
	}
	text_addf(out, fraction ? "%s.%03u" : "%s", text, (unsigned)(ms % 1000));
	return true;
}

void
text_say(const char *fmt, ...)
{
	struct buf line = { 0 };
	char text[SAY_MAX];
	va_list ap;
	ssize_t done;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	buf_add(&line, "caisson: ", 9);
	text_escape_line(
	    (struct slice){ (const uint8_t *)text, strnlen(text, sizeof(text)) }, &line);
	buf_add(&line, "\n", 1);
	if (!line.failed) {
		done = write(STDERR_FILENO, line.p, line.n);
		(void)done; /* nobody is left to tell */
	}
	buf_finish(&line);
}
