/*
 * path: resources are lists of segments (TU-35), and are compared as such.
 */
#include "broker/authority/authority.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/authority/text.h"
#include "common/limits.h"

static const char too_many[] = "too many segments";
static const char too_long[] = "a segment is too long";

/* White space as the contract's "trimmed" has it: what a reader does not see at an end. */
static bool
is_space(uint32_t c)
{
	return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000 ||
	       c == 0xfeff;
}

/* `s` may hold NULs: a text that was cut into segments is checked before it is copied. */
static const char *
segment_fault(const char *s, size_t n)
{
	uint32_t c = 0;
	size_t i, step;

	if (n == 0)
		return "a segment is empty";
	if (n > PATH_SEGMENT_MAX)
		return too_long;
	if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
		return "a segment is . or ..";
	for (i = 0; i < n; i += step) {
		step = text_next((const uint8_t *)s + i, n - i, &c);
		if (step == 0)
			return "not UTF-8";
		if (c == '/' || c == '\\' || c < 0x20 || (c >= 0x7f && c <= 0x9f))
			return "a segment holds a separator or control character";
		if (i == 0 && is_space(c))
			return "a segment begins with white space";
	}
	return is_space(c) ? "a segment ends with white space" : "";
}

const char *
path_fault(const struct path *p)
{
	const char *fault;
	size_t i;

	if (p->n > PATH_SEGMENTS_MAX)
		return too_many;
	for (i = 0; i < p->n; i++) {
		if (p->segment == NULL || p->segment[i] == NULL)
			return "a segment is missing";
		fault =
		    segment_fault(p->segment[i], strnlen(p->segment[i], PATH_SEGMENT_MAX + 1));
		if (*fault != '\0')
			return fault;
	}
	return "";
}

/* Checks every segment of `text` and counts them; "" if all are good. */
static const char *
text_fault(const char *text, size_t n, size_t *ret_count)
{
	const char *end = text + n, *slash, *fault;
	size_t count = 0;

	for (;;) {
		slash = memchr(text, '/', (size_t)(end - text));
		fault = segment_fault(text, (size_t)((slash != NULL ? slash : end) - text));
		if (*fault != '\0')
			return fault;
		if (++count > PATH_SEGMENTS_MAX)
			return too_many;
		if (slash == NULL)
			break;
		text = slash + 1;
	}
	*ret_count = count;
	return "";
}

int
path_parse(const char *text, size_t n, struct path *ret, const char **ret_fault)
{
	const char **segment;
	const char *fault;
	size_t count, i;
	char *copy;

	if (n > 0 && text[0] == '/') {
		*ret_fault = "it begins with a slash";
		return -EINVAL;
	}
	if (n > 0 && text[n - 1] == '/')
		n--;
	if (n == 0 || (n == 1 && text[0] == '.')) {
		*ret = (struct path){ NULL, 0 };
		return 0;
	}
	fault = text_fault(text, n, &count);
	if (*fault != '\0') {
		*ret_fault = fault;
		return -EINVAL;
	}
	/* One block: the array, and behind it the text with its slashes made NULs. */
	segment = malloc(count * sizeof(*segment) + n + 1);
	if (segment == NULL)
		return -ENOMEM;
	copy = (char *)(segment + count);
	memcpy(copy, text, n);
	copy[n] = '\0';
	for (i = 0; i < count; i++) {
		segment[i] = copy;
		copy += strcspn(copy, "/");
		*copy++ = '\0';
	}
	*ret = (struct path){ segment, count };
	return 0;
}

void
path_finish(struct path *p)
{
	free(p->segment);
	*p = (struct path){ NULL, 0 };
}

bool
path_equal(const struct path *a, const struct path *b)
{
	return a->n == b->n && path_within(a, b);
}

bool
path_within(const struct path *a, const struct path *b)
{
	size_t i;

	if (a->n < b->n)
		return false;
	/* From the far end: siblings differ there more often than at the root. */
	for (i = b->n; i > 0; i--)
		if (strcmp(a->segment[i - 1], b->segment[i - 1]) != 0)
			return false;
	return true;
}
