#include <ctype.h>
#include <string.h>
#include <time.h>

#include "common/utf8.h"
#include "common/util.h"
#include "common/walk.h"
#include "supervisor/config.h"

/* A text that YAML reads as this text without quotes, wherever it stands. */
static bool
is_bare(const char *s)
{
	static const char *const words[] = { "true", "false", "null", "yes", "no", "on", "off",
		"y", "n" };
	size_t i, n = strlen(s);

	if ((!isalpha((unsigned char)s[0]) && s[0] != '/') || s[n - 1] == ':')
		return false;
	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("._-/:", s[i]))
			return false;
	for (i = 0; i < countof(words); i++)
		if (!strcasecmp(s, words[i]))
			return false;
	return true;
}

/* YAML takes more characters for a line break than meet the eye, and folds them: what is
 * not plain ASCII is written by its number. */
static void
show_quoted(FILE *f, const void *text, size_t n)
{
	const unsigned char *s = text;
	uint32_t c;
	size_t i;
	int len;

	putc('"', f);
	for (i = 0; i<n; i += len> 0 ? (size_t)len : 1) {
		len = utf8_next(s + i, n - i, &c);
		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", (int)c);
		else if (c == '\n')
			fputs("\\n", f);
		else if (c > 0xffff)
			fprintf(f, "\\U%08x", (unsigned)c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(f, "\\u%04x", (unsigned)c);
		else
			putc((int)c, f);
	}
	putc('"', f);
}

static void
show_text(FILE *f, const char *s)
{
	if (is_bare(s))
		fputs(s, f);
	else
		show_quoted(f, s, strlen(s));
}

static void
show_words(FILE *f, const struct conf_words *w)
{
	size_t i;

	putc('[', f);
	for (i = 0; i < w->n; i++) {
		fputs(i ? ", " : "", f);
		show_text(f, w->v[i]);
	}
	putc(']', f);
}

/* A real number must not come back as an integer. */
static void
show_real(FILE *f, double real)
{
	char text[40];

	snprintf(text, sizeof(text), "%.17g", real);
	fprintf(f, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Values are written as JSON, which is YAML. */
static void
show_value(FILE *f, struct slice *s)
{
	struct value v = value_next(s);
	uint32_t i;

	switch (v.type) {
	case VALUE_NIL: fputs("null", f); break;
	case VALUE_BOOL: fputs(v.boolean ? "true" : "false", f); break;
	case VALUE_UINT: fprintf(f, "%ju", (uintmax_t)v.uint); break;
	case VALUE_INT: fprintf(f, "%jd", (intmax_t)v.sint); break;
	case VALUE_FLOAT: show_real(f, v.real); break;
	case VALUE_STR:
	case VALUE_BIN: show_quoted(f, v.bytes.p, v.bytes.n); break;
	case VALUE_ARRAY:
		putc('[', f);
		for (i = 0; i < v.count; i++) {
			fputs(i ? ", " : "", f);
			show_value(f, s);
		}
		putc(']', f);
		break;
	case VALUE_MAP:
		fputs("{ ", f);
		for (i = 0; i < v.count; i++) {
			fputs(i ? ", " : "", f);
			show_value(f, s);
			fputs(": ", f);
			show_value(f, s);
		}
		fputs(" }", f);
		break;
	}
}

struct unit {
	uint64_t factor;
	const char *name;
};

/* The largest unit that says it exactly. */
static void
show_scaled(FILE *f, uint64_t n, const struct unit *units)
{
	while (units->factor > 1 && (n == 0 || n % units->factor))
		units++;
	fprintf(f, "%ju%s", (uintmax_t)(n / units->factor), units->name);
}

static void
show_instant(FILE *f, uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	char text[32];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fputs(text, f);
}

static void
show_scalar(FILE *f, const struct conf_field *field, const void *v)
{
	static const struct unit durations[] = { { 60000, "m" }, { 1000, "s" }, { 1, "ms" } };
	static const struct unit sizes[] = { { 1ull << 30, "GiB" }, { 1u << 20, "MiB" },
		{ 1u << 10, "KiB" }, { 1, "B" } };
	const struct conf_packed *packed = v;
	struct slice s;

	switch (field->type) {
	case CONF_WORDS:
	case CONF_SEGMENTS: show_words(f, v); break;
	case CONF_NUMBER: fprintf(f, "%ju", (uintmax_t) * (const uint64_t *)v); break;
	case CONF_DURATION: show_scaled(f, *(const uint64_t *)v, durations); break;
	case CONF_SIZE: show_scaled(f, *(const uint64_t *)v, sizes); break;
	case CONF_BITS:
		fprintf(f, *(const uint64_t *)v < 10 ? "%ju" : "0x%jx",
		    (uintmax_t) * (const uint64_t *)v);
		break;
	case CONF_SWITCH: fputs(*(const bool *)v ? "true" : "false", f); break;
	case CONF_CHOICE: fputs(field->names[*(const unsigned *)v], f); break;
	case CONF_INSTANT: show_instant(f, *(const uint64_t *)v); break;
	case CONF_SCHEMA:
		s = (struct slice){ packed->p, packed->n };
		show_value(f, &s);
		break;
	default: show_text(f, *(char *const *)v); break;
	}
}

static const struct conf_section *
profile_section(void)
{
	return conf_list_section(&conf_root, "profiles");
}

/* Fields that mean something: what was said, and every fallback but nothing. */
static bool
is_shown(const struct conf_section *s, const struct conf_field *field, const char *section)
{
	const void *v = section + field->value;

	/* What a profile does not say, its base does. */
	if (*(const bool *)(section + field->has) || s == profile_section())
		return *(const bool *)(section + field->has);
	switch (field->type) {
	case CONF_TEXT:
	case CONF_ADDRESS:
	case CONF_FILE: return *(char *const *)v != NULL;
	case CONF_PROSE: return *(char *const *)v != NULL && **(char *const *)v != '\0';
	case CONF_WORDS: return ((const struct conf_words *)v)->n > 0;
	case CONF_NUMBER:
	case CONF_SIZE: return *(const uint64_t *)v >= field->min && *(const uint64_t *)v > 0;
	case CONF_CHOICE:
		/* Its own program is what it has when nothing is said. */
		return (field->names != conf_names_builtin &&
			   field->names != conf_names_runtime_builtin) ||
		       *(const unsigned *)v != 0;
	case CONF_INSTANT:
	case CONF_BITS:
	case CONF_SEGMENTS:
	case CONF_SCHEMA: return false;
	case CONF_SEVERAL: return s == &conf_root || ((const struct conf_list *)v)->n > 0;
	default: return true;
	}
}

static bool
is_there(const struct conf_section *s, const struct conf_field *field, const char *p)
{
	const struct conf_field *f;

	if (field->type != CONF_INSIDE)
		return is_shown(s, field, p);
	if (field->number == 1)
		return *(const bool *)(p + field->has);
	for (f = field->section->fields; f->key; f++)
		if (is_there(field->section, f, p + field->value))
			return true;
	return false;
}

static void
show_section(FILE *f, const struct conf_section *s, const char *p, int depth, bool in_list)
{
	const struct conf_field *field;
	const struct conf_list *list;
	size_t i;

	for (field = s->fields; field->key; field++) {
		if (!is_there(s, field, p))
			continue;
		if (in_list)
			fputs("- ", f);
		else
			fprintf(f, "%*s", depth, "");
		in_list = false;
		fprintf(f, "%s:", field->key);
		if (field->type == CONF_INSIDE) {
			putc('\n', f);
			show_section(f, field->section, p + field->value, depth + 4, false);
		} else if (field->type == CONF_SEVERAL) {
			list = (const struct conf_list *)(const void *)(p + field->value);
			fputs(list->n ? "\n" : " []\n", f);
			for (i = 0; i < list->n; i++) {
				fprintf(f, "%*s", depth + 2, "");
				show_section(f, field->section,
				    (const char *)list->v + i * field->section->size, depth + 4,
				    true);
			}
		} else {
			putc(' ', f);
			show_scalar(f, field, p + field->value);
			putc('\n', f);
		}
	}
}

void
conf_show(FILE *f, const struct conf_namespace *c)
{
	show_section(f, &conf_root, (const char *)c, 0, false);
}

void
conf_show_profile(FILE *f, const struct conf_profile *p)
{
	struct conf_profile rest = *p;

	rest.has_syscalls = false;
	fputs("  ", f);
	show_section(f, profile_section(), (const char *)&rest, 4, true);
}
