#include "common/segment.h"

#include <stdbool.h>
#include <stdint.h>

#include "common/limits.h"
#include "common/utf8.h"

/* White space as "trimmed" has it: what a reader does not see at an end. */
static bool
is_space(uint32_t c)
{
	return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	    c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000 ||
	    c == 0xfeff;
}

static bool
is_forbidden(uint32_t c)
{
	return c == '/' || c == '\\' || c < 0x20 || (c >= 0x7f && c <= 0x9f);
}

/* Bytes of most segments; the rest is looked at by characters. */
static const bool is_usual[256] = {
	['!' ... '.'] = true,
	['0' ... '['] = true,
	[']' ... '~'] = true,
};

const char *
segment_fault(const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;
	uint32_t c = 0;
	size_t usual = 0;
	int step;

	if (n == 0)
		return "a segment is empty";
	if (n > PATH_SEGMENT_MAX)
		return "a segment is too long";
	if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
		return "a segment is . or ..";
	while (usual < n && is_usual[p[usual]])
		usual++;
	if (usual == n)
		return "";
	for (size_t i = 0; i < n; i += (size_t)step) {
		step = utf8_next(p + i, n - i, &c);
		if (step <= 0)
			return "not UTF-8";
		if (is_forbidden(c))
			return "a segment holds a separator or control character";
		if (i == 0 && is_space(c))
			return "a segment begins with white space";
	}
	return is_space(c) ? "a segment ends with white space" : "";
}
