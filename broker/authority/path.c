/*
 * path: resources are lists of segments (TU-35), and are compared as such.
 */
#include "broker/authority/authority.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/segment.h"

static const char too_many[] = "too many segments";
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
