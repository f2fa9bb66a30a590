#include "worker/files/text.h"

#include <errno.h>
#include <string.h>

/* What a first byte announces: bytes that follow, and the range of the second (the only
 * place where overlong forms, surrogates and values over 10ffff show). */
static int
utf8_lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
	*lo = 0x80;
	*hi = 0xbf;
	if (c < 0x80)
		return 0;
	if (c >= 0xc2 && c <= 0xdf)
		return 1;
	if (c >= 0xe0 && c <= 0xef) {
		*lo = c == 0xe0 ? 0xa0 : 0x80;
		*hi = c == 0xed ? 0x9f : 0xbf;
		return 2;
	}
	if (c >= 0xf0 && c <= 0xf4) {
		*lo = c == 0xf0 ? 0x90 : 0x80;
		*hi = c == 0xf4 ? 0x8f : 0xbf;
		return 3;
	}
	return -EINVAL;
}

size_t
text_utf8(const uint8_t *p, size_t n, bool *ret_partial)
{
	uint8_t lo, hi;
	size_t at = 0, i;
	int more;

	*ret_partial = false;
	while (at < n) {
		more = utf8_lead(p[at], &lo, &hi);
		if (more < 0)
			return at;
		for (i = 1; i <= (size_t)more && at + i < n; i++) {
			if (p[at + i] < lo || p[at + i] > hi)
				return at;
			lo = 0x80;
			hi = 0xbf;
		}
		if (i <= (size_t)more) {
			*ret_partial = true;
			return at;
		}
		at += i;
	}
	return at;
}

uint32_t
text_next(const uint8_t *p, size_t n, size_t *at)
{
	static const uint8_t mask[] = { 0x7f, 0x1f, 0x0f, 0x07 };
	uint8_t lo, hi;
	int more = utf8_lead(p[*at], &lo, &hi);
	uint32_t c = p[(*at)++];

	if (more <= 0)
		return c;
	c &= mask[more];
	while (more-- > 0 && *at < n)
		c = c << 6 | (p[(*at)++] & 0x3f);
	return c;
}

/* What a reader does not see at an end (TU-35: trimmed). */
static bool
is_space(uint32_t c)
{
	return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	    c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000 ||
	    c == 0xfeff;
}

bool
text_is_name(const uint8_t *p, size_t n)
{
	bool partial;
	size_t at = 0;
	uint32_t c = 0;
	bool first;

	/* Most names are plain, and a large directory has many. */
	while (at < n && p[at] > ' ' && p[at] < 0x7f && p[at] != '/' && p[at] != '\\')
		at++;
	if (at == n)
		return true;
	at = 0;
	if (text_utf8(p, n, &partial) != n)
		return false;
	while (at < n) {
		first = at == 0;
		c = text_next(p, n, &at);
		if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == '/' || c == '\\')
			return false;
		if (first && is_space(c))
			return false;
	}
	return !is_space(c);
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t
text_base64_size(size_t n)
{
	return (n + 2) / 3 * 4;
}

void
text_base64(const uint8_t *p, size_t n, char *out)
{
	uint32_t v;
	size_t i;

	for (i = 0; i < n; i += 3, out += 4) {
		v = (uint32_t)p[i] << 16;
		v |= i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0;
		v |= i + 2 < n ? p[i + 2] : 0;
		out[0] = base64_digits[v >> 18];
		out[1] = base64_digits[v >> 12 & 63];
		out[2] = i + 1 < n ? base64_digits[v >> 6 & 63] : '=';
		out[3] = i + 2 < n ? base64_digits[v & 63] : '=';
	}
}

static int
base64_value(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -EINVAL;
}

int
text_unbase64(const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n)
{
	size_t i, k, used = 0, pad = 0;
	uint32_t v;
	int digit;

	if (n % 4 != 0)
		return -EINVAL;
	for (i = 0; i < n; i += 4) {
		for (v = 0, k = 0; k < 4; k++) {
			if (i + 4 == n && k >= 2 && p[i + k] == '=' && (k == 3 || p[n - 1] == '=')) {
				pad++;
				v <<= 6;
				continue;
			}
			digit = base64_value(p[i + k]);
			if (digit < 0)
				return -EINVAL;
			v = v << 6 | (uint32_t)digit;
		}
		if ((pad == 1 && (v & 0xff) != 0) || (pad == 2 && (v & 0xffff) != 0))
			return -EINVAL;
		for (k = 0; k < 3 - pad; k++)
			out[used++] = (uint8_t)(v >> (16 - 8 * k));
	}
	*ret_n = used;
	return 0;
}

void
text_hex(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}
