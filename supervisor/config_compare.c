#include "supervisor/config_compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

struct comparer {
	conf_change_fn *fn;
	void *arg;
};

/* What is not here applies to what begins afterwards. */
static const struct {
	const char *key;
	enum conf_effect effect;
} effects[] = {
	{ "namespace", CONF_IDENTITY },
	{ "authority", CONF_IDENTITY },
	{ "owner", CONF_IDENTITY },
	{ "socket", CONF_RESTART },
	{ "durability", CONF_RESTART },
	{ "revocation", CONF_RESTART },
	{ "retention.mode", CONF_RESTART },
	/* The gateway is born with its sockets; the files of tls are read again. */
	{ "gateway.listen", CONF_RESTART },
	{ "gateway.monitor", CONF_RESTART },
};

static enum conf_effect
effect_of(const char *key)
{
	size_t i;

	for (i = 0; i < countof(effects); i++)
		if (!strcmp(effects[i].key, key))
			return effects[i].effect;
	return CONF_APPLIES;
}

/* ---- the same ---------------------------------------------------------------------- */

static bool
same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool
same_words(const struct conf_words *a, const struct conf_words *b)
{
	size_t i;

	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return true;
}

static bool
same_packed(const struct conf_packed *a, const struct conf_packed *b)
{
	return a->n == b->n && (a->n == 0 || !memcmp(a->p, b->p, a->n));
}

static bool same_section(const struct conf_section *s, const void *a, const void *b);

static bool
same_list(
    const struct conf_section *s, const struct conf_list *a, const struct conf_list *b)
{
	size_t i;

	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++)
		if (!same_section(s, (const char *)a->v + i * s->size,
			(const char *)b->v + i * s->size))
			return false;
	return true;
}

/* `a` and `b` are the sections. */
static bool
same_value(const struct conf_field *f, const void *a, const void *b)
{
	const void *va = (const char *)a + f->value, *vb = (const char *)b + f->value;

	switch (f->type) {
	case CONF_TEXT:
	case CONF_PROSE:
	case CONF_ADDRESS:
	case CONF_FILE: return same_text(*(char *const *)va, *(char *const *)vb);
	case CONF_WORDS:
	case CONF_SEGMENTS: return same_words(va, vb);
	case CONF_SWITCH: return *(const bool *)va == *(const bool *)vb;
	case CONF_CHOICE: return *(const unsigned *)va == *(const unsigned *)vb;
	case CONF_SCHEMA: return same_packed(va, vb);
	case CONF_INSIDE: return same_section(f->section, va, vb);
	case CONF_SEVERAL: return same_list(f->section, va, vb);
	case CONF_NUMBER:
	case CONF_DURATION:
	case CONF_SIZE:
	case CONF_BITS:
	case CONF_INSTANT:
	case CONF_TYPE_MAX: break;
	}
	return *(const uint64_t *)va == *(const uint64_t *)vb;
}

/* Both say it, or both leave it out. */
static bool
same_said(const struct conf_field *f, const void *a, const void *b)
{
	return *(const bool *)((const char *)a + f->has) ==
	       *(const bool *)((const char *)b + f->has);
}

/* What is left out may mean something of its own, so that saying it is another thing. */
static bool
same_section(const struct conf_section *s, const void *a, const void *b)
{
	const struct conf_field *f;

	for (f = s->fields; f->key; f++)
		if (!same_said(f, a, b) || !same_value(f, a, b))
			return false;
	return true;
}

/* ---- lists, by id ------------------------------------------------------------------ */

static void
tell(const struct comparer *k, const char *key, enum conf_how how, struct node_at at)
{
	struct conf_change c = {
		.key = key, .how = how, .effect = effect_of(key), .at = at
	};

	k->fn(&c, k->arg);
}

static bool
has_id(const struct conf_section *s)
{
	return s->fields[0].type == CONF_TEXT || s->fields[0].type == CONF_ADDRESS;
}

static const char *
id_of(const struct conf_section *s, const void *item)
{
	return *(char *const *)((const char *)item + s->fields[0].value);
}

static const void *
find(const struct conf_section *s, const struct conf_list *list, const char *id)
{
	const char *item = list->v;
	size_t i;

	for (i = 0; i < list->n; i++, item += s->size)
		if (!strcmp(id_of(s, item), id))
			return item;
	return NULL;
}

/* Every section begins with where it is: nowhere, if no file holds it. */
static struct node_at
place_of(const void *item)
{
	return *(const struct node_at *)item;
}

static void
compare_item(const struct comparer *k, const struct conf_field *f, const void *item,
    const void *other, enum conf_how alone)
{
	cleanup_free char *key = NULL;

	if (place_of(item).line == 0 || (other && same_section(f->section, item, other)))
		return;
	if (asprintf(&key, "%s[%s]", f->key, id_of(f->section, item)) < 0)
		key = NULL;
	tell(k, key ? key : f->key, other ? CONF_CHANGED : alone, place_of(item));
}

static void
compare_list(const struct comparer *k, const struct conf_field *f, const struct conf_list *a,
    const struct conf_list *b)
{
	const struct conf_section *s = f->section;
	const char *item;
	size_t i;

	for (i = 0, item = a->v; i < a->n; i++, item += s->size)
		if (!find(s, b, id_of(s, item)))
			compare_item(k, f, item, NULL, CONF_GONE);
	for (i = 0, item = b->v; i < b->n; i++, item += s->size)
		compare_item(k, f, item, find(s, a, id_of(s, item)), CONF_NEW);
}

/* ---- what makes processes ----------------------------------------------------------- */

/* In both it means the same, down to what it is derived from; built in, it always does. */
static bool
same_profile(const char *name, const struct conf_namespace *a, const struct conf_namespace *b)
{
	const struct conf_section *s = conf_list_section(&conf_root, "profiles");
	const struct conf_profile *pa, *pb;

	for (;; name = pa->base) {
		pa = find(s, (const struct conf_list *)(const void *)&a->profiles, name);
		pb = find(s, (const struct conf_list *)(const void *)&b->profiles, name);
		if (!pa || !pb)
			return pa == pb;
		if (!same_section(s, pa, pb))
			return false;
	}
}

/* The place of one that is as `row` in `list`; SIZE_MAX: none is. */
static size_t
same_row(const char *key, const void *row, const struct conf_list *list)
{
	const struct conf_section *s = conf_list_section(&conf_root, key);
	const char *found = find(s, list, id_of(s, row));

	return found && same_section(s, row, found)
		   ? (size_t)(found - (const char *)list->v) / s->size
		   : SIZE_MAX;
}

size_t
conf_same_runtime(
    const struct conf_namespace *c, size_t i, const struct conf_namespace *other)
{
	const struct conf_runtime *t = &c->runtimes.v[i];

	return same_profile(t->profile, c, other)
		   ? same_row("runtimes", t,
			 (const struct conf_list *)(const void *)&other->runtimes)
		   : SIZE_MAX;
}

size_t
conf_same_provider(
    const struct conf_namespace *c, size_t i, const struct conf_namespace *other)
{
	const struct conf_provider *p = &c->providers.v[i];

	return same_profile(p->profile, c, other)
		   ? same_row("providers", p,
			 (const struct conf_list *)(const void *)&other->providers)
		   : SIZE_MAX;
}

/* ---- the whole --------------------------------------------------------------------- */

static void
compare_fields(const struct comparer *k, const struct conf_section *s, const char *prefix,
    const void *a, const void *b)
{
	const struct conf_field *f;
	char key[80];

	for (f = s->fields; f->key; f++) {
		const void *va = (const char *)a + f->value, *vb = (const char *)b + f->value;

		snprintf(key, sizeof(key), "%s%s", prefix, f->key);
		if (f->type == CONF_INSIDE) {
			strlcat(key, ".", sizeof(key));
			compare_fields(k, f->section, key, va, vb);
		} else if (f->type == CONF_SEVERAL && has_id(f->section)) {
			compare_list(k, f, va, vb);
		} else if (!same_value(f, a, b) ||
			   (f->type == CONF_WORDS && !same_said(f, a, b))) {
			/* An empty list is none; what the rest falls back to is its value. */
			tell(k, key, CONF_CHANGED,
			    *(const struct node_at *)((const char *)b + f->at));
		}
	}
}

void
conf_compare(const struct conf_namespace *a, const struct conf_namespace *b,
    conf_change_fn *fn, void *arg)
{
	const struct comparer k = { fn, arg };

	compare_fields(&k, &conf_root, "", a, b);
}

static const struct conf_field *
field_named(const struct conf_section *s, const char *key, size_t n)
{
	const struct conf_field *f = s->fields;

	while (strncmp(f->key, key, n) != 0 || f->key[n] != '\0')
		f++;
	return f;
}

/* "gateway.listen"; whether there is a gateway goes with its keys. */
static int
keep(const struct conf_section *s, const char *key, void *c, const void *running)
{
	size_t n = strcspn(key, ".");
	const struct conf_field *f = field_named(s, key, n);

	if (key[n] == '\0')
		return conf_copy(f, c, running);
	if (f->number == 1)
		*(bool *)((char *)c + f->has) = *(const bool *)((const char *)running + f->has);
	return keep(f->section, key + n + 1, (char *)c + f->value,
	    (const char *)running + f->value);
}

int
conf_keep(struct conf_namespace *c, const struct conf_namespace *running)
{
	size_t i;
	int r = 0;

	for (i = 0; i < countof(effects) && r == 0; i++)
		if (effects[i].effect == CONF_RESTART)
			r = keep(&conf_root, effects[i].key, c, running);
	return r;
}
