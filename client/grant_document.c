#include "client/grant_document.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/options.h"
#include "common/util.h"
#include "common/walk.h"

#define AT_MAX 64 /* bytes of "capabilities[4294967295].resource" */

struct document {
	char *err;
};

/* Where something stands: "" is the document itself. */
__attribute__((format(printf, 4, 5))) static int
refuse(struct document *d, const char *at, const char *key, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(d->err, GRANT_DOCUMENT_ERROR_MAX, "%s%s%.64s%s", at,
	    *at != '\0' && *key != '\0' ? "." : "", key,
	    *at != '\0' || *key != '\0' ? ": " : "");
	va_start(ap, fmt);
	vsnprintf(d->err + n, GRANT_DOCUMENT_ERROR_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* ---- members ----------------------------------------------------------------------- */

/* No member but those of `known`, which have blanks between them. */
static int
check_members(struct document *d, const char *at, struct slice map, const char *known)
{
	struct value v = value_next(&map);
	uint32_t i;

	for (i = 0; i < v.count; i++) {
		struct slice key = value_key(&map);
		const char *s = known;
		size_t n;

		value_skip(&map);
		for (; *s != '\0'; s += n + (s[n] == ' ')) {
			n = strcspn(s, " ");
			if (n == key.n && memcmp(s, key.p, n) == 0)
				break;
		}
		if (*s == '\0')
			return refuse(d, at, "", "has a member \"%.*s\", expected only %s",
			    (int)(key.n < 64 ? key.n : 64), (const char *)key.p, known);
	}
	return 0;
}

/* 1 and the value, 0 if there is none, or the refusal. */
static int
get(struct document *d, const char *at, struct slice map, const char *key, enum value_type type,
    struct value *ret)
{
	static const char *const names[] = { [VALUE_UINT] = "a whole number",
		[VALUE_STR] = "a text", [VALUE_ARRAY] = "a list", [VALUE_MAP] = "an object" };

	if (!value_get(map, key, ret))
		return 0;
	if (ret->type != type)
		return refuse(d, at, key, "is not %s", names[type]);
	return 1;
}

static int
need(struct document *d, const char *at, struct slice map, const char *key,
    enum value_type type, struct value *ret)
{
	int r = get(d, at, map, key, type, ret);

	return r != 0 ? r : refuse(d, at, key, "is missing");
}

static int
get_text(struct document *d, const char *at, struct slice map, const char *key, bool *ret_has,
    struct slice *ret)
{
	struct value v;
	int r = get(d, at, map, key, VALUE_STR, &v);

	if (r <= 0)
		return r;
	if (v.bytes.n == 0)
		return refuse(d, at, key, "is empty");
	if (memchr(v.bytes.p, '\0', v.bytes.n) != NULL)
		return refuse(d, at, key, "holds a NUL");
	*ret_has = true;
	*ret = v.bytes;
	return 1;
}

static int
get_address(struct document *d, const char *at, struct slice map, const char *key,
    bool *ret_has, struct slice *ret)
{
	int r = get_text(d, at, map, key, ret_has, ret);
	cleanup_free char *text = r > 0 ? slice_dup(*ret) : NULL;
	const char *fault;

	if (r <= 0)
		return r;
	fault = text != NULL ? options_address_fault(text) : "is more than the memory holds";
	if (fault != NULL)
		return refuse(d, at, key,
		    "\"%.80s\" %s, expected human:ID, agent:ID, group:ID or service:ID",
		    text != NULL ? text : "", fault);
	return r;
}

static int
get_instant(struct document *d, const char *at, struct slice map, const char *key,
    bool *ret_has, uint64_t *ret)
{
	struct slice s;
	bool has = false;
	int r = get_text(d, at, map, key, &has, &s);
	cleanup_free char *text = r > 0 ? slice_dup(s) : NULL;

	if (r <= 0)
		return r;
	if (text == NULL || options_parse_time(text, ret) < 0)
		return refuse(d, at, key, "\"%.64s\" is not an instant (2027-01-01T00:00:00Z)",
		    text != NULL ? text : "");
	*ret_has = true;
	return 1;
}

static int
get_uint(struct document *d, const char *at, struct slice map, const char *key, bool *ret_has,
    uint64_t *ret)
{
	struct value v;
	int r = get(d, at, map, key, VALUE_UINT, &v);

	if (r <= 0)
		return r;
	if (v.uint > UINT32_MAX)
		return refuse(d, at, key, "is more than %u", UINT32_MAX);
	*ret_has = true;
	*ret = v.uint;
	return 1;
}

/* A list of texts, of which there is one at least, packed again. */
static int
need_words(struct document *d, const char *at, struct slice map, const char *key,
    struct buf *out)
{
	struct slice rest;
	struct value v, word;
	uint32_t i;
	int r = need(d, at, map, key, VALUE_ARRAY, &v);

	if (r < 0)
		return r;
	if (v.count == 0)
		return refuse(d, at, key, "is empty");
	pack_array(out, v.count);
	rest = v.raw;
	value_next(&rest);
	for (i = 0; i < v.count; i++) {
		word = value_skip(&rest);
		if (word.type != VALUE_STR || word.bytes.n == 0)
			return refuse(d, at, key, "holds what is not a text, or empty");
		pack_raw(out, word.raw);
	}
	return 0;
}

/* ---- capabilities ------------------------------------------------------------------ */

void
grant_pack_head(struct buf *out, struct slice namespace, struct slice owner, struct slice scope)
{
	pack_map(out, owner.n > 0 ? 5 : 4);
	pack_str(out, "namespace");
	pack_str_n(out, namespace.p, namespace.n);
	if (owner.n > 0) {
		pack_str(out, "owner");
		pack_str_n(out, owner.p, owner.n);
	}
	pack_str(out, "scope");
	pack_str_n(out, scope.p, scope.n);
}

const char *
grant_pack_path(struct buf *out, const char *text, size_t n)
{
	const char *s, *end, *const last = text + n;
	uint32_t count = 1;
	const char *fault;

	if (n == 1 && *text == '.') {
		pack_array(out, 0);
		return NULL;
	}
	for (s = text; s < last; s++)
		count += *s == '/';
	pack_array(out, count);
	for (s = text; count > 0; s = end + 1, count--) {
		end = memchr(s, '/', (size_t)(last - s));
		end = end != NULL ? end : last;
		fault = options_segment_fault(s, (size_t)(end - s));
		if (fault != NULL)
			return fault;
		pack_str_n(out, s, (size_t)(end - s));
	}
	return NULL;
}

/* "a/b", "." or ["a", "b"]. */
static int
read_path(struct document *d, const char *at, struct slice map, struct buf *out)
{
	struct value v, segment;
	struct slice rest;
	const char *fault = NULL;
	uint32_t i;

	if (!value_get(map, "path", &v))
		return refuse(d, at, "path", "is missing");
	if (v.type == VALUE_STR) {
		fault = grant_pack_path(out, (const char *)v.bytes.p, v.bytes.n);
	} else if (v.type == VALUE_ARRAY) {
		pack_array(out, v.count);
		rest = v.raw;
		value_next(&rest);
		for (i = 0; i < v.count && fault == NULL; i++) {
			segment = value_skip(&rest);
			fault = segment.type != VALUE_STR
				    ? "has a segment that is not a text"
				    : options_segment_fault((const char *)segment.bytes.p,
					  segment.bytes.n);
			pack_raw(out, segment.raw);
		}
	} else {
		fault = "is neither a text nor a list";
	}
	return fault == NULL ? 0
			     : refuse(d, at, "path",
				   "%s, expected segments like docs/notes, or . for the root",
				   fault);
}

static int
read_capability(struct document *d, uint32_t i, struct slice map, struct buf *out)
{
	struct slice namespace = { 0 }, owner = { 0 }, scope = slice_of("exact");
	bool has_namespace = false, has_owner = false, has_scope = false;
	char at[AT_MAX / 2], in[AT_MAX];
	struct value resource;
	int r;

	snprintf(at, sizeof(at), "capabilities[%u]", i);
	snprintf(in, sizeof(in), "%s.resource", at);
	if ((r = check_members(d, at, map, "resource actions")) < 0 ||
	    (r = need(d, at, map, "resource", VALUE_MAP, &resource)) < 0 ||
	    (r = check_members(d, in, resource.raw, "namespace owner path scope")) < 0 ||
	    (r = get_text(d, in, resource.raw, "namespace", &has_namespace, &namespace)) < 0 ||
	    (r = get_address(d, in, resource.raw, "owner", &has_owner, &owner)) < 0 ||
	    (r = get_text(d, in, resource.raw, "scope", &has_scope, &scope)) < 0)
		return r;
	if (!has_namespace)
		return refuse(d, in, "namespace", "is missing");
	if (!has_scope)
		return refuse(d, in, "scope", "is missing");
	if (!slice_is(scope, "exact") && !slice_is(scope, "descendants"))
		return refuse(d, in, "scope", "\"%.*s\" is none of exact, descendants",
		    (int)(scope.n < 64 ? scope.n : 64), (const char *)scope.p);
	grant_pack_head(out, namespace, owner, scope);
	pack_str(out, "path");
	r = read_path(d, in, resource.raw, out);
	if (r < 0)
		return r;
	pack_str(out, "actions");
	return need_words(d, at, map, "actions", out);
}

static int
read_capabilities(struct document *d, struct slice map, struct buf *out)
{
	struct slice rest;
	struct value v, item;
	uint32_t i;
	int r = need(d, "", map, "capabilities", VALUE_ARRAY, &v);

	if (r < 0)
		return r;
	pack_array(out, v.count);
	rest = v.raw;
	value_next(&rest);
	for (i = 0, r = 0; i < v.count && r == 0; i++) {
		item = value_skip(&rest);
		r = item.type == VALUE_MAP ? read_capability(d, i, item.raw, out)
					   : refuse(d, "capabilities", "", "holds what is not "
									   "an object");
	}
	return r;
}

/* ---- the whole --------------------------------------------------------------------- */

static int
read_constraints(
    struct document *d, struct slice map, struct msg_grant_issue *m, struct buf *purposes)
{
	static const char at[] = "constraints";
	struct value v, list;
	int r = get(d, "", map, at, VALUE_MAP, &v);

	if (r <= 0)
		return r;
	if ((r = check_members(d, at, v.raw,
		 "notBefore expiresAt maxUses delegationDepth purposes")) < 0 ||
	    (r = get_instant(d, at, v.raw, "notBefore", &m->has_notBefore, &m->notBefore)) <
		0 ||
	    (r = get_instant(d, at, v.raw, "expiresAt", &m->has_expiresAt, &m->expiresAt)) <
		0 ||
	    (r = get_uint(d, at, v.raw, "maxUses", &m->has_maxUses, &m->maxUses)) < 0 ||
	    (r = get_uint(d, at, v.raw, "delegationDepth", &m->has_delegationDepth,
		 &m->delegationDepth)) < 0)
		return r;
	if (m->has_maxUses && m->maxUses == 0)
		return refuse(d, at, "maxUses", "must be more than 0");
	if (!value_get(v.raw, "purposes", &list))
		return 0;
	m->has_purposes = true;
	return need_words(d, at, v.raw, "purposes", purposes);
}

int
grant_document_read(struct slice document, struct msg_grant_issue *ret,
    struct buf *capabilities, struct buf *purposes, char err[GRANT_DOCUMENT_ERROR_MAX])
{
	static const char *const brokers[] = { "namespace", "issuedAt" };
	struct document d = { .err = err };
	struct slice s = document;
	struct value v = value_next(&s);
	size_t i;
	int r;

	if (v.type != VALUE_MAP)
		return refuse(&d, "", "", "is not an object");
	for (i = 0; i < countof(brokers); i++)
		if (value_get(document, brokers[i], &v))
			return refuse(&d, "", brokers[i], "is not to be said here: it is that "
							  "of whoever issues the grant");
	if (value_get(document, "parent", &v))
		return refuse(&d, "", "parent", "is a word of grant derive");
	if ((r = check_members(
		 &d, "", document, "id subject issuer capabilities constraints")) < 0 ||
	    (r = get_text(&d, "", document, "id", &ret->has_id, &ret->id)) < 0 ||
	    (r = get_address(&d, "", document, "subject", &ret->has_subject,
		 &ret->subject)) < 0 ||
	    (r = get_address(
		 &d, "", document, "issuer", &ret->has_issuer, &ret->issuer)) < 0)
		return r;
	if (!ret->has_subject)
		return refuse(&d, "", "subject", "is missing");
	r = read_capabilities(&d, document, capabilities);
	if (r == 0)
		r = read_constraints(&d, document, ret, purposes);
	if (r == 0 && (capabilities->failed || purposes->failed))
		return -ENOMEM;
	return r;
}
