#include "supervisor/config.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "common/util.h"
#include "supervisor/config_private.h"
#include "supervisor/profiles.h"

const char *const conf_names_profile_network[] = { "own", "shared", NULL };
const char *const conf_names_builtin[] = { "none", "files", NULL };
const char *const conf_names_runtime_builtin[] = { "none", "command", NULL };
const char *const conf_names_retention[] = { "memory", "durable", "none", NULL };
const char *const conf_names_provider_scope[] = { "session", "shared", NULL };
const char *const conf_names_effect[] = { "read", "write", NULL };
const char *const conf_names_scope[] = { "exact", "descendants", NULL };
const char *const conf_names_durability[] = { "full", "relaxed", NULL };
const char *const conf_names_revocation[] = { "immediate", "next-turn", NULL };

/* The last four, and retention, are enums of protocol.def, in its order. */
_Static_assert(effect_read == 0 && effect_write == 1, "config_names_effect");
_Static_assert(scope_exact == 0 && scope_descendants == 1, "config_names_scope");
_Static_assert(retention_memory == 0 && retention_durable == 1 && retention_none == 2,
    "conf_names_retention");
_Static_assert(NETWORK_OWN == 0 && NETWORK_SHARED == 1, "conf_names_profile_network");
_Static_assert(durability_full == 0 && durability_relaxed == 1, "config_names_durability");
_Static_assert(revocation_mode_immediate == 0 && revocation_mode_next_turn == 1,
    "conf_names_revocation");

#define REQUIRED true
#define OPTIONAL false
#define ROW(s, key, type, need, lo, hi, number, text, names, section, doc)                     \
	{ #key, CONF_##type, need, offsetof(struct conf_##s, has_##key),                       \
		offsetof(struct conf_##s, at_##key), offsetof(struct conf_##s, key), lo, hi,   \
		number, text, names, section, doc },
#define SECTION(id) static const struct conf_field fields_##id[] = {
#define END(id)                                                                                \
	{                                                                                      \
		.key = NULL                                                                    \
	}                                                                                      \
	}                                                                                      \
	;                                                                                      \
	static const struct conf_section section_##id                                          \
	    __attribute__((unused)) = { #id, sizeof(struct conf_##id), fields_##id };
#define TEXT(s, k, lo, hi, need, fallback, d)                                                  \
	ROW(s, k, TEXT, need, lo, hi, 0, fallback, NULL, NULL, d)
#define PROSE(s, k, hi, d) ROW(s, k, PROSE, false, 0, hi, 0, "", NULL, NULL, d)
#define ADDRESS(s, k, need, fallback, d)                                                       \
	ROW(s, k, ADDRESS, need, 1, 300, 0, fallback, NULL, NULL, d)
#define FILE_AT(s, k, need, d)	     ROW(s, k, FILE, need, 1, 4095, 0, NULL, NULL, NULL, d)
#define WORDS(s, k, lo, hi, need, d) ROW(s, k, WORDS, need, lo, hi, 0, NULL, NULL, NULL, d)
#define NUMBER(s, k, lo, hi, fallback, d)                                                      \
	ROW(s, k, NUMBER, false, lo, hi, fallback, NULL, NULL, NULL, d)
#define DURATION(s, k, lo, hi, fallback, d)                                                    \
	ROW(s, k, DURATION, false, lo, hi, fallback, NULL, NULL, NULL, d)
#define SIZE(s, k, lo, hi, fallback, d)                                                        \
	ROW(s, k, SIZE, false, lo, hi, fallback, NULL, NULL, NULL, d)
#define BITS(s, k, hi, need, d) ROW(s, k, BITS, need, 0, hi, 0, NULL, NULL, NULL, d)
#define BUILT(s, k, type)
#define SWITCH(s, k, fallback, d) ROW(s, k, SWITCH, false, 0, 1, fallback, NULL, NULL, NULL, d)
#define CHOICE(s, k, names, need, fallback, d)                                                 \
	ROW(s, k, CHOICE, need, 0, 0, fallback, NULL, conf_names_##names, NULL, d)
#define INSTANT(s, k, need, d) ROW(s, k, INSTANT, need, 0, 0, 0, NULL, NULL, NULL, d)
#define SEGMENTS(s, k, need, d)                                                                \
	ROW(s, k, SEGMENTS, need, 0, PATH_SEGMENTS_MAX, 0, NULL, NULL, NULL, d)
#define SCHEMA(s, k, need, d)                                                                  \
	ROW(s, k, SCHEMA, need, 0, SCHEMA_MAX, 0, "a JSON Schema (a mapping)", NULL, NULL, d)
#define MAPPING(s, k, hi, need, d)                                                             \
	ROW(s, k, SCHEMA, need, 0, hi, 0, "a mapping", NULL, NULL, d)
#define INSIDE(s, k, section, need, d)                                                         \
	ROW(s, k, INSIDE, need, 0, 0, 0, NULL, NULL, &section_##section, d)
#define WHOLE(s, k, section, d)                                                                \
	ROW(s, k, INSIDE, false, 0, 0, 1, NULL, NULL, &section_##section, d)
#define SEVERAL(s, k, section, hi, d)                                                          \
	ROW(s, k, SEVERAL, false, 0, hi, 0, NULL, NULL, &section_##section, d)
#include "supervisor/config.def"

const struct conf_section conf_root = { "namespace", sizeof(struct conf_namespace),
	fields_namespace };

/* ---- a section's fields, by the table ---------------------------------------------- */

static void section_finish(const struct conf_section *s, void *p);

/* Everything as it is when nothing is said. */
static int
section_init(const struct conf_section *s, void *ret)
{
	const struct conf_field *f;
	void *v;

	memset(ret, 0, s->size);
	for (f = s->fields; f->key; f++) {
		v = (char *)ret + f->value;
		switch (f->type) {
		case CONF_NUMBER:
		case CONF_DURATION:
		case CONF_SIZE: *(uint64_t *)v = f->number; break;
		case CONF_SWITCH: *(bool *)v = f->number != 0; break;
		case CONF_CHOICE: *(unsigned *)v = (unsigned)f->number; break;
		case CONF_INSIDE:
			if (section_init(f->section, v) < 0)
				return -ENOMEM;
			break;
		case CONF_TEXT:
		case CONF_PROSE:
		case CONF_ADDRESS:
			if (f->text && !(*(char **)v = strdup(f->text)))
				return -ENOMEM;
			break;
		default: break;
		}
	}
	return 0;
}

void
conf_words_finish(struct conf_words *w)
{
	size_t i;

	for (i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct conf_words){ NULL, 0 };
}

void
conf_truncate(const struct conf_section *section, struct conf_list *list, size_t n)
{
	while (list->n > n)
		section_finish(section, (char *)list->v + --list->n * section->size);
}

static void
list_finish(const struct conf_section *s, struct conf_list *list)
{
	conf_truncate(s, list, 0);
	free(list->v);
}

static void
section_finish(const struct conf_section *s, void *p)
{
	const struct conf_field *f;
	void *v;

	for (f = s->fields; f->key; f++) {
		v = (char *)p + f->value;
		switch (f->type) {
		case CONF_TEXT:
		case CONF_PROSE:
		case CONF_ADDRESS:
		case CONF_FILE: free(*(char **)v); break;
		case CONF_WORDS:
		case CONF_SEGMENTS: conf_words_finish(v); break;
		case CONF_SCHEMA: free(((struct conf_packed *)v)->p); break;
		case CONF_INSIDE: section_finish(f->section, v); break;
		case CONF_SEVERAL: list_finish(f->section, v); break;
		default: break;
		}
	}
	memset(p, 0, s->size);
}

int
conf_init(struct conf_namespace *ret)
{
	return section_init(&conf_root, ret);
}

void
conf_finish(struct conf_namespace *c)
{
	conf_profiles_destroy(c->built);
	section_finish(&conf_root, c);
}

void *
conf_add(const struct conf_section *section, struct conf_list *list)
{
	char *v = reallocarray(list->v, list->n + 1, section->size), *item;

	if (!v)
		return NULL;
	list->v = v;
	item = v + list->n * section->size;
	if (section_init(section, item) < 0) {
		section_finish(section, item);
		return NULL;
	}
	list->n++;
	return item;
}

const struct conf_section *
conf_list_section(const struct conf_section *s, const char *key)
{
	const struct conf_field *f;

	for (f = s->fields; f->key; f++)
		if (!strcmp(f->key, key))
			break;
	assert(f->section);
	return f->section;
}

int
conf_words_add(struct conf_words *w, const char *text, size_t n)
{
	char **v = reallocarray(w->v, w->n + 2, sizeof(*v));

	if (!v)
		return -ENOMEM;
	w->v = v;
	v[w->n] = strndup(text, n);
	if (!v[w->n])
		return -ENOMEM;
	v[++w->n] = NULL;
	return 0;
}

/* ---- a copy ------------------------------------------------------------------------ */

static int
copy_words(struct conf_words *ret, const struct conf_words *from)
{
	size_t i;
	int r = 0;

	conf_words_finish(ret);
	for (i = 0; i < from->n && r == 0; i++)
		r = conf_words_add(ret, from->v[i], strlen(from->v[i]));
	return r;
}

static int
copy_text(char **ret, const char *from)
{
	char *text = from ? strdup(from) : NULL;

	if (from && !text)
		return -ENOMEM;
	free(*ret);
	*ret = text;
	return 0;
}

static int
copy_packed(struct conf_packed *ret, const struct conf_packed *from)
{
	uint8_t *p = malloc(from->n + 1);

	if (!p)
		return -ENOMEM;
	if (from->n)
		memcpy(p, from->p, from->n);
	free(ret->p);
	*ret = (struct conf_packed){ p, from->n };
	return 0;
}

static int
copy_section(const struct conf_section *s, void *ret, const void *from)
{
	const struct conf_field *f;
	int r = 0;

	*(struct node_at *)ret = *(const struct node_at *)from;
	for (f = s->fields; f->key && r == 0; f++)
		r = conf_copy(f, ret, from);
	return r;
}

static int
copy_list(const struct conf_section *s, struct conf_list *ret, const struct conf_list *from)
{
	size_t i;
	void *item;
	int r = 0;

	conf_truncate(s, ret, 0);
	for (i = 0; i < from->n && r == 0; i++) {
		item = conf_add(s, ret);
		r = item ? copy_section(s, item, (const char *)from->v + i * s->size) : -ENOMEM;
	}
	return r;
}

static int
copy_value(const struct conf_field *f, void *ret, const void *from)
{
	switch (f->type) {
	case CONF_TEXT:
	case CONF_PROSE:
	case CONF_ADDRESS:
	case CONF_FILE: return copy_text(ret, *(char *const *)from);
	case CONF_WORDS:
	case CONF_SEGMENTS: return copy_words(ret, from);
	case CONF_SCHEMA: return copy_packed(ret, from);
	case CONF_INSIDE: return copy_section(f->section, ret, from);
	case CONF_SEVERAL: return copy_list(f->section, ret, from);
	case CONF_SWITCH: *(bool *)ret = *(const bool *)from; return 0;
	case CONF_CHOICE: *(unsigned *)ret = *(const unsigned *)from; return 0;
	case CONF_NUMBER:
	case CONF_DURATION:
	case CONF_SIZE:
	case CONF_BITS:
	case CONF_INSTANT:
	case CONF_TYPE_MAX: break;
	}
	*(uint64_t *)ret = *(const uint64_t *)from;
	return 0;
}

int
conf_copy(const struct conf_field *f, void *ret, const void *from)
{
	*(bool *)((char *)ret + f->has) = *(const bool *)((const char *)from + f->has);
	*(struct node_at *)(void *)((char *)ret + f->at) =
	    *(const struct node_at *)(const void *)((const char *)from + f->at);
	return copy_value(f, (char *)ret + f->value, (const char *)from + f->value);
}

/* ---- errors ------------------------------------------------------------------------ */

int
conf_refuse(char err[CONF_ERROR_MAX], const char *file, struct node_at at, const char *fmt, ...)
{
	int n = 0;
	va_list ap;

	if (file && at.line)
		n = snprintf(err, CONF_ERROR_MAX, "%.400s:%u:%u: ", file, at.line, at.column);
	else if (file)
		n = snprintf(err, CONF_ERROR_MAX, "%.400s: ", file);
	va_start(ap, fmt);
	vsnprintf(err + n, CONF_ERROR_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

int
conf_refuse_row(char err[CONF_ERROR_MAX], const char *file, const struct conf_namespace *c,
    enum config_row_kind row, uint32_t index)
{
	static const char why[] = "refused by the broker, whose line above says why";

#define ROW_OF(kind, list)                                                                     \
	if (row == (kind) && index < c->list.n)                                                \
		return conf_refuse(err, file, c->list.v[index].at, #list "[%u]: %s", index, why);
	ROW_OF(CONFIG_ROW_RUNTIME, runtimes)
	ROW_OF(CONFIG_ROW_PROVIDER, providers)
	ROW_OF(CONFIG_ROW_TOOL, tools)
	ROW_OF(CONFIG_ROW_GRANT, grants)
	ROW_OF(CONFIG_ROW_PRINCIPAL, principals)
#undef ROW_OF
	return conf_refuse(err, file, (struct node_at){ 0, 0 }, "%s", why);
}

/* ---- the forms of single values ---------------------------------------------------- */

const char *
conf_split_path(const char *text, struct conf_words *ret)
{
	const char *end, *fault;

	if (!strcmp(text, "."))
		return NULL;
	for (;; text = end + 1) {
		end = strchrnul(text, '/');
		fault = options_segment_fault(text, (size_t)(end - text));
		if (!fault && ret->n == PATH_SEGMENTS_MAX)
			fault = "has over 64 segments";
		if (!fault && conf_words_add(ret, text, (size_t)(end - text)) < 0)
			fault = "is more than the memory holds";
		if (fault || *end == '\0')
			return fault;
	}
}

