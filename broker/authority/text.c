#include "broker/authority/text.h"

#include <string.h>

size_t
text_character(const uint8_t *p, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t len, i;

	if (c < 0x80) {
		*ret = c;
		return 1;
	}
	if (c >= 0xf8 || c < 0xc0)
		return 0;
	len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (len > n)
		return 0;
	c &= 0x7fu >> len;
	for (i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least[len] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
		return 0;
	*ret = c;
	return len;
}

bool
text_is_plain(const char *text, size_t max)
{
	size_t n, i, step;
	uint32_t c;

	if (text == NULL)
		return false;
	n = strnlen(text, max + 1);
	if (n == 0 || n > max)
		return false;
	for (i = 0; i < n; i += step) {
		step = text_next((const uint8_t *)text + i, n - i, &c);
		if (step == 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f))
			return false;
	}
	return true;
}
