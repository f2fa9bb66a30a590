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
