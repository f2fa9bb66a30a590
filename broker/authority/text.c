#include "broker/authority/text.h"

#include <string.h>

#include "common/utf8.h"

bool
text_is_plain(const char *text, size_t max)
{
	size_t n, i;
	uint32_t c;
	int step;

	if (text == NULL)
		return false;
	n = strnlen(text, max + 1);
	if (n == 0 || n > max)
		return false;
	for (i = 0; i < n && text[i] >= 0x20 && text[i] < 0x7f; i++)
		;
	for (; i < n; i += (size_t)step) {
		step = utf8_next((const uint8_t *)text + i, n - i, &c);
		if (step <= 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f))
			return false;
	}
	return true;
}
