#include "common/hex.h"

void
hex_encode(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}

static int
digit_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
	    : c >= 'a' && c <= 'f'  ? c - 'a' + 10
	    : c >= 'A' && c <= 'F'  ? c - 'A' + 10
				     : -1;
}

bool
hex_decode(const char *text, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = digit_value(text[2 * i]);
		int low = high < 0 ? -1 : digit_value(text[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return text[2 * n] == '\0';
}
