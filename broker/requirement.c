#include "broker/requirement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/zone.h"
#include "common/limits.h"
#include "common/util.h"
#include "common/walk.h"

static const char code_unresolved[] = "tool_requirement_resolution_failed";
static const char code_invalid[] = "invalid_request";

struct template_segment {
	const char *text; /* a literal, or the name of an argument */
	bool placeholder;
	bool required; /* placeholder: the schema requires the argument */
};

struct requirement_template {
	struct template_segment segments[PATH_SEGMENTS_MAX];
	size_t n;
	size_t nplaceholders;
	struct zone zone;
};

/* ---- declaration ---------------------------------------------------------------------- */

static int
refuse(char *err, size_t cap, const char *what)
{
	snprintf(err, cap, "%s", what);
	return -EINVAL;
}

static int
compile_placeholder(struct requirement_template *t, struct template_segment *s,
    const struct schema *schema, char *err, size_t cap)
{
	enum schema_type type;

	if (++t->nplaceholders > REQUIREMENT_PLACEHOLDERS_MAX)
		return refuse(err, cap, "has more than 8 placeholders");
	if (schema_property(schema, s->text, strlen(s->text), &type, &s->required) < 0) {
		snprintf(err, cap, "{%s} is not an argument of the tool", s->text);
		return -EINVAL;
	}
	if (type != SCHEMA_STRING) {
		snprintf(err, cap, "{%s} is not an argument of type string", s->text);
		return -EINVAL;
	}
	s->placeholder = true;
	return 0;
}

static int
compile_segment(struct requirement_template *t, const char *text, size_t n,
    const struct schema *schema, char *err, size_t cap)
{
	bool braced = n > 2 && text[0] == '{' && text[n - 1] == '}';
	struct template_segment *s;
	const char *fault;

	if (t->n == PATH_SEGMENTS_MAX)
		return refuse(err, cap, "too many segments");
	s = &t->segments[t->n];
	if (braced) {
		text++;
		n -= 2;
	}
	if (memchr(text, '{', n) != NULL || memchr(text, '}', n) != NULL)
		return refuse(err, cap, "a placeholder is not a whole segment");
	s->text = zone_text(&t->zone, (struct slice){ (const uint8_t *)text, n });
	if (s->text == NULL)
		return -ENOMEM;
	t->n++;
	if (braced)
		return compile_placeholder(t, s, schema, err, cap);
	fault = path_fault(&(struct path){ &s->text, 1 });
	return *fault == '\0' ? 0 : refuse(err, cap, fault);
}

int
requirement_compile(const char *text, const struct schema *schema,
    struct requirement_template **ret, char *err, size_t cap)
{
	struct requirement_template *t = calloc(1, sizeof(*t));
	bool more = *text != '\0' && strcmp(text, ".") != 0;
	size_t n;
	int r = 0;

	if (t == NULL)
		return -ENOMEM;
	while (more && r == 0) {
		n = strcspn(text, "/");
		r = compile_segment(t, text, n, schema, err, cap);
		more = text[n] == '/';
		text += n + 1;
	}
	if (r < 0) {
		requirement_destroy(t);
		return r;
	}
	*ret = t;
	return 0;
}

void
requirement_destroy(struct requirement_template *t)
{
	if (t == NULL)
		return;
	zone_finish(&t->zone);
	free(t);
}

/* ---- a call --------------------------------------------------------------------------- */

static int
resolve_argument(const struct template_segment *s, struct slice arguments, struct path *ret,
    const char **ret_code, char *err, size_t cap)
{
	const char *fault = "";
	struct value v;
	int r;

	if (!value_get(arguments, s->text, &v)) {
		if (!s->required)
			return 0;
		*ret_code = code_unresolved;
		snprintf(err, cap, "%s: is required", s->text);
		return -EINVAL;
	}
	if (v.type != VALUE_STR) {
		*ret_code = code_unresolved;
		snprintf(err, cap, "%s: is not a string", s->text);
		return -EINVAL;
	}
	r = path_parse((const char *)v.bytes.p, v.bytes.n, ret, &fault);
	if (r == -EINVAL) {
		*ret_code = code_invalid;
		snprintf(err, cap, "%s: is not a path: %s", s->text, fault);
	}
	return r;
}

/* What each segment of a template stands for. */
struct parts {
	struct path path[PATH_SEGMENTS_MAX];
	size_t segments, bytes; /* of all, each with its NUL */
};

static int
collect(const struct requirement_template *t, struct slice arguments, struct path *parsed,
    struct parts *parts, const char **ret_code, char *err, size_t cap)
{
	const struct template_segment *s;
	struct path *p;
	size_t i, k;
	int r;

	for (i = 0; i < t->n; i++) {
		s = &t->segments[i];
		p = &parts->path[i];
		if (s->placeholder) {
			r = resolve_argument(s, arguments, parsed, ret_code, err, cap);
			if (r < 0)
				return r;
			*p = *parsed++;
		} else {
			*p = (struct path){ (const char **)(uintptr_t)&s->text, 1 };
		}
		parts->segments += p->n;
		for (k = 0; k < p->n; k++)
			parts->bytes += strlen(p->segment[k]) + 1;
	}
	if (parts->segments <= PATH_SEGMENTS_MAX)
		return 0;
	*ret_code = code_invalid;
	return refuse(err, cap, "the path has too many segments");
}

/* One block of memory: the array, and behind it the texts; and the same as a packed list. */
static int
assemble(const struct requirement_template *t, const struct parts *parts,
    struct resolved_requirement *r)
{
	struct path *path = &r->requirement.path;
	size_t i, k, n;
	char *text;

	pack_array(&r->path, (uint32_t)parts->segments);
	r->memory = malloc(parts->segments * sizeof(*path->segment) + parts->bytes + 1);
	if (r->memory == NULL)
		return -ENOMEM;
	path->segment = r->memory;
	text = (char *)(path->segment + parts->segments);
	for (i = 0; i < t->n; i++) {
		for (k = 0; k < parts->path[i].n; k++) {
			n = strlen(parts->path[i].segment[k]);
			memcpy(text, parts->path[i].segment[k], n + 1);
			pack_str_n(&r->path, text, n);
			path->segment[path->n++] = text;
			text += n + 1;
		}
	}
	return r->path.failed ? -ENOMEM : 0;
}

int
requirement_resolve(const struct requirement_template *t, const char *namespace,
    const char *action, struct slice arguments, struct resolved_requirement *ret,
    const char **ret_code, char *err, size_t cap)
{
	struct path parsed[REQUIREMENT_PLACEHOLDERS_MAX] = { { NULL, 0 } };
	struct slice in = arguments;
	struct parts parts;
	size_t i;
	int r;

	*ret = (struct resolved_requirement){ .requirement = {
						  .namespace = namespace, .action = action } };
	parts.segments = parts.bytes = 0;
	if (value_open(&in).type == VALUE_MAP) {
		r = collect(t, arguments, parsed, &parts, ret_code, err, cap);
	} else {
		*ret_code = code_unresolved;
		r = refuse(err, cap, "the arguments are not a map");
	}
	if (r == 0)
		r = assemble(t, &parts, ret);
	for (i = 0; i < countof(parsed); i++)
		path_finish(&parsed[i]);
	if (r < 0)
		requirement_finish(ret);
	return r;
}

void
requirement_finish(struct resolved_requirement *r)
{
	free(r->memory);
	buf_finish(&r->path);
	*r = (struct resolved_requirement){ .memory = NULL };
}
