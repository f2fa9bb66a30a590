#include "common/log_line.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

bool
log_line_add(struct log_line *l, const char *p, size_t n)
{
	if (n > l->cap - l->n)
		return false;
	memcpy(l->text + l->n, p, n);
	l->n += n;
	return true;
}

/* Controls, line separators, and what turns the direction of text. */
static bool
steers(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

static bool
add_bytes(struct log_line *l, const uint8_t *p, size_t n)
{
	char escape[5];
	size_t i;

	for (i = 0; i < n; i++) {
		snprintf(escape, sizeof escape, "\\x%02x", p[i]);
		if (!log_line_add(l, escape, 4))
			return false;
	}
	return true;
}

bool
log_line_add_text(struct log_line *l, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t left = strlen(text), n;
	uint32_t c;
	int r;

	for (; left > 0; p += n, left -= n) {
		r = utf8_next(p, left, &c);
		n = r > 0 ? (size_t)r : 1;
		if (r <= 0 || steers(c)) {
			if (!add_bytes(l, p, n))
				return false;
		} else if (!log_line_add(l, (const char *)p, n)) {
			return false;
		}
	}
	return true;
}

bool
log_line_add_json(struct log_line *l, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t left = strlen(text), n;
	char escape[8];
	uint32_t c;
	bool fits;
	int r;

	for (; left > 0; p += n, left -= n) {
		r = utf8_next(p, left, &c);
		n = r > 0 ? (size_t)r : 1;
		if (r <= 0 || steers(c)) {
			c = r <= 0 ? 0xfffd : c;
			snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
			fits = log_line_add(l, escape, 6);
		} else if (c == '"' || c == '\\') {
			escape[0] = '\\';
			escape[1] = (char)c;
			fits = log_line_add(l, escape, 2);
		} else {
			fits = log_line_add(l, (const char *)p, n);
		}
		if (!fits)
			return false;
	}
	return true;
}

/* Year, month and day of a day since 1970, by eras of 400 years that begin in March. */
static void
date_of(uint64_t day, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	uint64_t z = day + 719468, era = z / 146097, doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

	*ret_day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
	*ret_month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	*ret_year = (unsigned)(yoe + era * 400 + (*ret_month <= 2));
}

bool
log_line_add_instant(struct log_line *l, uint64_t ms)
{
	uint64_t s = ms / 1000;
	unsigned year, month, day;
	char text[64];
	int n;

	date_of(s / 86400, &year, &month, &day);
	n = snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, day,
	    (unsigned)(s / 3600 % 24), (unsigned)(s / 60 % 60), (unsigned)(s % 60),
	    (unsigned)(ms % 1000));
	return log_line_add(l, text, (size_t)n);
}
