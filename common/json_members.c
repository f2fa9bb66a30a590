#include "common/json_members.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base64.h"
#include "common/utf8.h"
#include "common/walk.h"

#define NAME_SHOWN_MAX 64 /* bytes of a name that nobody knows */

struct reading {
	const char *where;
	struct buf *bytes;
	struct json_fault *fault;
};

static int fail(const struct reading *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int
fail(const struct reading *r, const char *name, const char *format, ...)
{
	char rule[160];
	va_list ap;

	va_start(ap, format);
	vsnprintf(rule, sizeof(rule), format, ap);
	va_end(ap);
	snprintf(r->fault->text, sizeof(r->fault->text), "%s%s: %s", r->where, name, rule);
	return -EINVAL;
}

static bool
has_nul(struct slice s)
{
	return s.n > 0 && memchr(s.p, '\0', s.n) != NULL;
}

static int
check_length(const struct reading *r, const struct json_member *m, size_t n)
{
	if (n < m->min && n == 0)
		return fail(r, m->name, "is empty");
	if (n < m->min)
		return fail(r, m->name, "has fewer than %" PRIu64 " bytes", m->min);
	if (n > m->max)
		return fail(r, m->name, "has more than %" PRIu64 " bytes", m->max);
	return 0;
}

static int
read_text(const struct reading *r, const struct json_member *m, const struct value *v, void *to)
{
	if (v->type != VALUE_STR)
		return fail(r, m->name, "is no string");
	if (has_nul(v->bytes))
		return fail(r, m->name, "holds a NUL");
	*(struct slice *)to = v->bytes;
	return check_length(r, m, v->bytes.n);
}

static int
read_bytes(
    const struct reading *r, const struct json_member *m, const struct value *v, void *to)
{
	uint8_t *room;
	size_t n = 0;

	if (v->type != VALUE_STR)
		return fail(r, m->name, "is no base64 string");
	room = buf_reserve(r->bytes, v->bytes.n / 4 * 3 + 1);
	if (room == NULL)
		return -ENOMEM;
	if (base64_decode(v->bytes.p, v->bytes.n, room, &n) < 0)
		return fail(r, m->name, "is no base64 (RFC 4648, with padding)");
	r->bytes->n += n;
	*(struct slice *)to = (struct slice){ room, n };
	return check_length(r, m, n);
}

static int
read_number(
    const struct reading *r, const struct json_member *m, const struct value *v, void *to)
{
	if (v->type == VALUE_UINT && v->uint >= m->min && v->uint <= m->max) {
		*(uint64_t *)to = v->uint;
		return 0;
	}
	return fail(r, m->name, "is no integer from %" PRIu64 " to %" PRIu64, m->min, m->max);
}

/* Are these, the elements of an array or the pairs of an object, all strings? */
static int
check_texts(const struct reading *r, const struct json_member *m, struct slice list)
{
	struct value head = value_open(&list), v;
	uint32_t i;

	if (head.count < m->min)
		return fail(r, m->name, "is empty");
	for (i = 0; i < head.count; i++) {
		if (head.type == VALUE_MAP)
			value_key(&list);
		v = value_skip(&list);
		if (v.type != VALUE_STR)
			return fail(r, m->name, "holds something that is no string");
		if (has_nul(v.bytes))
			return fail(r, m->name, "holds a string with a NUL");
	}
	return 0;
}

static int
read_payload(
    const struct reading *r, const struct json_member *m, const struct value *v, void *to)
{
	unsigned depth;
	uint32_t values;

	if (m->kind == JSON_KIND_TEXTS && v->type != VALUE_ARRAY)
		return fail(r, m->name, "is no array");
	if (m->kind != JSON_KIND_TEXTS && m->kind != JSON_KIND_ANY && v->type != VALUE_MAP)
		return fail(r, m->name, "is no object");
	*(struct slice *)to = v->raw;
	if (m->kind == JSON_KIND_FRAME)
		return 0;
	if (v->raw.n > m->max)
		return fail(r, m->name, "has more than %" PRIu64 " bytes when packed", m->max);
	value_measure(v->raw, &depth, &values);
	if (depth > json_payload.depth)
		return fail(r, m->name, "is nested more than %u deep", json_payload.depth);
	if (values > json_payload.values)
		return fail(r, m->name, "holds more than %u values", json_payload.values);
	if (m->kind == JSON_KIND_TEXTS || m->kind == JSON_KIND_TEXT_MAP)
		return check_texts(r, m, v->raw);
	return 0;
}

static int
read_member(
    const struct reading *r, const struct json_member *m, const struct value *v, uint8_t *ret)
{
	void *to = ret + m->offset;

	*(bool *)(ret + m->has) = true;
	switch (m->kind) {
	case JSON_KIND_TEXT: return read_text(r, m, v, to);
	case JSON_KIND_BYTES: return read_bytes(r, m, v, to);
	case JSON_KIND_NUMBER: return read_number(r, m, v, to);
	case JSON_KIND_FLAG:
		if (v->type != VALUE_BOOL)
			return fail(r, m->name, "is neither true nor false");
		*(bool *)to = v->boolean;
		return 0;
	default: return read_payload(r, m, v, to);
	}
}

/* Its name is shown as far as it is short, and a line that a terminal may have. */
static int
fail_unknown(const struct reading *r, struct slice name)
{
	size_t at, n = utf8_cut(name.p, name.n, NAME_SHOWN_MAX);
	uint32_t c;

	for (at = 0; at < n; at += (size_t)utf8_next(name.p + at, n - at, &c))
		if (utf8_next(name.p + at, n - at, &c) <= 0 || utf8_is_control(c))
			return fail(r, "", "unknown member");
	return fail(r, "", "unknown member \"%.*s\"", (int)n, (const char *)name.p);
}

static const struct json_member *
find(const struct json_member *table, struct slice name)
{
	for (; table->name != NULL; table++)
		if (slice_is(name, table->name))
			return table;
	return NULL;
}

int
json_members_read(struct slice value, const char *where, const struct json_member *table,
    void *ret, struct buf *bytes, struct json_fault *ret_fault)
{
	const struct reading r = { where, bytes, ret_fault };
	struct value head = value_open(&value), v;
	const struct json_member *m;
	struct slice name;
	uint32_t i;
	int rc = 0;

	if (head.type != VALUE_MAP)
		return fail(&r, "", "an object is expected");
	for (i = 0; i < head.count && rc == 0; i++) {
		name = value_key(&value);
		v = value_skip(&value);
		m = find(table, name);
		if (m == NULL)
			rc = fail_unknown(&r, name);
		else
			rc = read_member(&r, m, &v, ret);
	}
	for (m = table; m->name != NULL && rc == 0; m++)
		if (m->required && !*(const bool *)((const uint8_t *)ret + m->has))
			rc = fail(&r, m->name, "is missing");
	return rc;
}
