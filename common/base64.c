#include "common/base64.h"

#include <errno.h>

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t
base64_size(size_t n)
{
	return (n + 2) / 3 * 4;
}

void
base64_encode(const uint8_t *p, size_t n, char *out)
{
	uint32_t v;

	for (; n >= 3; n -= 3, p += 3, out += 4) {
		v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
		out[0] = digits[v >> 18];
		out[1] = digits[v >> 12 & 63];
		out[2] = digits[v >> 6 & 63];
		out[3] = digits[v & 63];
	}
	if (n == 0)
		return;
	v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0);
	out[0] = digits[v >> 18];
	out[1] = digits[v >> 12 & 63];
	out[2] = n > 1 ? digits[v >> 6 & 63] : '=';
	out[3] = '=';
}

static int
digit_value(uint8_t c)
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
base64_decode(const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n)
{
	size_t i, k, used = 0, pad = 0;
	uint32_t v;
	int digit;

	if (n % 4 != 0)
		return -EINVAL;
	for (i = 0; i < n; i += 4) {
		for (v = 0, k = 0; k < 4; k++) {
			if (i + 4 == n && k >= 2 && p[i + k] == '=' &&
			    (k == 3 || p[n - 1] == '=')) {
				pad++;
				v <<= 6;
				continue;
			}
			digit = digit_value(p[i + k]);
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
