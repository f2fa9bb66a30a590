#include "common/utf8.h"

/* Whether the second byte keeps the first in range: there, and only there, overlong forms,
 * surrogates and values over 10ffff show, so that nothing waits for the rest of them. */
static int
second_fits(uint8_t first, uint8_t second)
{
	switch (first) {
	case 0xe0: return second >= 0xa0;
	case 0xed: return second <= 0x9f;
	case 0xf0: return second >= 0x90;
	case 0xf4: return second <= 0x8f;
	default: return 1;
	}
}

int
utf8_decode(const uint8_t *p, size_t n, uint32_t *ret)
{
	int len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? -1 : p[0] < 0xe0 ? 2
		: p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : -1;
	uint32_t c;

	if (len <= 1) {
		*ret = p[0];
		return len;
	}
	c = p[0] & (0xffu >> (len + 1));
	for (int i = 1; i < len; i++) {
		if ((size_t)i == n)
			return 0;
		if ((p[i] & 0xc0) != 0x80 || (i == 1 && !second_fits(p[0], p[1])))
			return -1;
		c = c << 6 | (p[i] & 0x3f);
	}
	*ret = c;
	return len;
}

/* Text is mostly ASCII: passes over it 64 bytes at a time while it is. */
static const uint8_t *
skip_ascii(const uint8_t *p, const uint8_t *end)
{
	for (; end - p >= 64; p += 64) {
		const utf8_block *b = (const utf8_block *)p;
		utf8_block any = b[0] | b[1] | b[2] | b[3];

		if ((any[0] | any[1]) & 0x8080808080808080u)
			break;
	}
	while (end - p >= 8) {
		uint64_t w;

		memcpy(&w, p, sizeof w);
		if (w & 0x8080808080808080u)
			break;
		p += 8;
	}
	while (p < end && *p < 0x80)
		p++;
	return p;
}

bool
utf8_valid_long(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;
	uint32_t c;
	int len;

	while (p < end) {
		if (*p < 0x80) {
			p = skip_ascii(p, end);
			continue;
		}
		len = utf8_decode(p, (size_t)(end - p), &c);
		if (len <= 0)
			return false;
		p += len;
	}
	return true;
}

bool
utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e ||
	       c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
	       c == 0xfeff || (c >= 0xe0000 && c <= 0xe007f);
}
