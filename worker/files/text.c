#include "worker/files/text.h"

#include <string.h>

#include "common/segment.h"
#include "common/utf8.h"

size_t
text_utf8(const uint8_t *p, size_t n, bool *ret_partial)
{
	size_t at = 0;
	uint32_t c;
	int len = 1;

	while (at < n && (len = utf8_next(p + at, n - at, &c)) > 0)
		at += (size_t)len;
	*ret_partial = len == 0;
	return at;
}

uint32_t
text_next(const uint8_t *p, size_t n, size_t *at)
{
	uint32_t c;
	int len = utf8_next(p + *at, n - *at, &c);

	*at += len > 0 ? (size_t)len : 1;
	return c;
}

bool
text_is_name(const uint8_t *p, size_t n)
{
	size_t at = 0;

	/* Most names are plain, and a large directory has many. */
	while (at < n && p[at] > ' ' && p[at] < 0x7f && p[at] != '/' && p[at] != '\\')
		at++;
	return at == n || segment_fault((const char *)p, n)[0] == '\0';
}
