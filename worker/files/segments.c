#include "worker/files/segments.h"

#include <errno.h>
#include <string.h>

#include "common/walk.h"
#include "worker/files/text.h"

bool
segments_is_temp(const uint8_t *p, size_t n)
{
	const size_t prefix = sizeof(TEMP_PREFIX) - 1, suffix = sizeof(TEMP_SUFFIX) - 1;

	return n >= prefix + suffix && memcmp(p, TEMP_PREFIX, prefix) == 0 &&
	    memcmp(p + n - suffix, TEMP_SUFFIX, suffix) == 0;
}

bool
segments_is_name(const uint8_t *p, size_t n)
{
	if (n == 0 || n > SEGMENT_BYTES_MAX || memchr(p, '/', n) != NULL)
		return false;
	if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
		return false;
	return !segments_is_temp(p, n) && text_is_name(p, n);
}

static int
append(struct segments *s, struct slice name)
{
	if (s->n == PATH_SEGMENTS_MAX || !segments_is_name(name.p, name.n))
		return -EINVAL;
	s->name[s->n++] = name;
	return 0;
}

int
segments_parse(struct slice text, struct segments *ret)
{
	const uint8_t *end = text.p + text.n, *p, *slash;

	ret->n = 0;
	ret->slash = text.n > 1 && end[-1] == '/';
	if (ret->slash)
		end--;
	if (text.n == 0 || (end - text.p == 1 && text.p[0] == '.'))
		return 0;
	for (p = text.p;; p = slash + 1) {
		slash = memchr(p, '/', (size_t)(end - p));
		if (append(ret, (struct slice){ p, (size_t)((slash ? slash : end) - p) }) < 0)
			return -EINVAL;
		if (slash == NULL)
			return 0;
	}
}

int
segments_unpack(struct slice list, struct segments *ret)
{
	struct value v = value_next(&list);
	uint32_t i, count;

	ret->n = 0;
	ret->slash = false;
	if (v.type != VALUE_ARRAY)
		return -EINVAL;
	count = v.count;
	for (i = 0; i < count; i++) {
		v = value_skip(&list);
		if (v.type != VALUE_STR || append(ret, v.bytes) < 0)
			return -EINVAL;
	}
	return 0;
}

bool
segments_equal(const struct segments *a, const struct segments *b)
{
	size_t i;

	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++)
		if (!slice_equal(a->name[i], b->name[i]))
			return false;
	return true;
}

size_t
segments_join(const struct segments *s, size_t n, char *out)
{
	size_t i, used = 0;

	for (i = 0; i < n; i++) {
		if (i > 0)
			out[used++] = '/';
		memcpy(out + used, s->name[i].p, s->name[i].n);
		used += s->name[i].n;
	}
	return used;
}

void
segments_pack(struct buf *out, const struct segments *s)
{
	char text[SEGMENTS_TEXT_MAX];

	pack_str_n(out, text, segments_join(s, s->n, text));
}
