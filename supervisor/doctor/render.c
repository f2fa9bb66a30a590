/* A report as text and as JSON. */
#include <string.h>
#include <sys/utsname.h>

#include "common/utf8.h"
#include "common/util.h"
#include "supervisor/doctor/doctor.h"
#include "supervisor/profiles.h"

static const char *const need_names[] = { "needed", "wanted", "information" };

static const struct {
	const char *json, *text;
	const char *colour;
} states[DOCTOR_STATES] = {
	[DOCTOR_UNTRIED] = { "untried", "-", "\033[2m" },
	[DOCTOR_YES] = { "yes", "yes", "\033[32m" },
	[DOCTOR_NO] = { "no", "no", "\033[33m" },
	[DOCTOR_UNASKED] = { "not_applicable", "-", "\033[2m" },
	[DOCTOR_UNKNOWN] = { "unknown", "?", "\033[31m" },
};

#define RED   "\033[31m"
#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

/* ---- text ---- */

/* Paths and settings come from elsewhere; a terminal obeys nothing of them. */
static void
print_escaped(FILE *f, const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
			fprintf(f, "\\x%02x", (unsigned char)*s);
		else
			putc(*s, f);
}

static void
print_mark(FILE *f, enum doctor_state state, bool blocks, bool colour)
{
	const char *text = blocks && state == DOCTOR_NO ? "NO" : states[state].text;

	fprintf(f, "  %s%-3s%s  ",
	    !colour  ? ""
	    : blocks ? RED
		     : states[state].colour,
	    text, colour ? PLAIN : "");
}

static void
print_row(FILE *f, const struct doctor_report *r, int row, bool colour, bool verbose)
{
	const struct doctor_row *d = &doctor_rows[row];
	const struct doctor_finding *x = &r->findings[row];
	const char *remedy = doctor_remedy(r, row);
	bool blocks = d->need == DOCTOR_NEEDED && x->state == DOCTOR_NO;

	print_mark(f, x->state, blocks, colour);
	fprintf(f, "%-29s ", d->title);
	print_escaped(f, x->detail);
	putc('\n', f);
	if (verbose || (x->state == DOCTOR_NO && d->need != DOCTOR_INFORMATION))
		fprintf(f, "       %s: %s\n", need_names[d->need], d->purpose);
	if (*remedy != '\0') {
		fprintf(f, "       do: ");
		print_escaped(f, remedy);
		putc('\n', f);
	}
}

/* The titles of what is missing, behind `before`; nothing if nothing is. */
static void
print_gaps(FILE *f, const struct doctor_report *r, const char *profile, enum doctor_need need,
    const char *before)
{
	const char *comma = before;

	for (int i = 0; i < DOCTOR_ROWS; i++) {
		if (doctor_rows[i].need != need || !doctor_is_gap(r, i, profile))
			continue;
		fprintf(f, "%s%s", comma, doctor_rows[i].title);
		comma = ", ";
	}
	if (comma != before)
		putc('\n', f);
}

static void
print_absent(FILE *f, uint32_t absent)
{
	const char *comma = "       absent, as the launch says: ";

	for (uint32_t i = 0; i < LAYER_MAX; i++) {
		if ((absent & 1u << i) == 0)
			continue;
		fprintf(f, "%s%s", comma, layer_name(i));
		comma = ", ";
	}
	if (absent != 0)
		putc('\n', f);
}

/* Did the same become of both? */
static bool
is_same(
    const struct doctor_report *r, const struct doctor_launch *a, const struct doctor_launch *b)
{
	for (int i = 0; i < DOCTOR_ROWS; i++)
		if (doctor_is_gap(r, i, a->profile) != doctor_is_gap(r, i, b->profile))
			return false;
	return a->launched == b->launched && a->absent == b->absent &&
	       strcmp(a->message, b->message) == 0;
}

/* Launches `first` up to but not `end`, of all of which the same became. */
static void
print_launches(FILE *f, const struct doctor_report *r, size_t first, size_t end, bool colour)
{
	const struct doctor_launch *l = &r->launches[first];
	bool enforced = doctor_is_enforced(r, l);

	print_mark(f, enforced ? DOCTOR_YES : DOCTOR_NO, !enforced, colour);
	for (size_t i = first; i < end; i++)
		fprintf(f, "%s%s", i > first ? ", " : "", r->launches[i].profile);
	fputs("\n       ", f);
	if (!l->launched)
		print_escaped(f, l->message);
	else
		fputs(
		    enforced ? "launched" : "launched, but something that is needed is missing",
		    f);
	putc('\n', f);
	print_absent(f, l->absent);
	print_gaps(f, r, l->profile, DOCTOR_NEEDED, "       cannot be enforced because of: ");
	if (enforced)
		print_gaps(f, r, l->profile, DOCTOR_WANTED, "       without: ");
}

void
doctor_print_text(FILE *f, const struct doctor_report *r, bool colour, bool verbose)
{
	const char *group = "", *bold = colour ? BOLD : "", *plain = colour ? PLAIN : "";
	const struct doctor_launch *l = doctor_default(r);
	bool enforced = l != NULL && doctor_is_enforced(r, l);
	struct utsname u;
	size_t end;

	if (uname(&u) == 0)
		fprintf(f, "%s %s %s, %s\n", u.sysname, u.release, u.machine,
		    r->is_root ? "as root" : "not as root");
	for (int i = 0; i < DOCTOR_ROWS; i++) {
		if (strcmp(group, doctor_group(i)) != 0)
			fprintf(f, "\n%s%s%s\n", bold, doctor_group(i), plain);
		group = doctor_group(i);
		print_row(f, r, i, colour, verbose);
	}
	fprintf(f, "\n%sprofiles%s\n", bold, plain);
	for (size_t i = 0; i < r->nlaunches; i = end) {
		for (end = i + 1; end < r->nlaunches; end++)
			if (!is_same(r, &r->launches[i], &r->launches[end]))
				break;
		print_launches(f, r, i, end, colour);
	}
	fprintf(f, "\n%sThe default profile, " PROFILE_DEFAULT ", can%s be enforced.%s\n",
	    !colour    ? ""
	    : enforced ? BOLD
		       : BOLD RED,
	    enforced ? "" : "not", plain);
}

/* ---- JSON ---- */

/* What is no UTF-8 becomes U+FFFD, byte by byte. */
static void
print_string(FILE *f, const char *text)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t left = strlen(text);
	uint32_t c;
	int n;

	putc('"', f);
	for (; left > 0; s += n, left -= (size_t)n) {
		n = utf8_next(s, left, &c);
		if (n <= 0) {
			n = 1;
			fputs("\\ufffd", f);
		} else if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) {
			fprintf(f, "\\u%04x", c);
		} else {
			fwrite(s, 1, (size_t)n, f);
		}
	}
	putc('"', f);
}

static void
print_member(FILE *f, const char *name, const char *value)
{
	fprintf(f, "\"%s\":", name);
	print_string(f, value);
}

static void
print_row_json(FILE *f, const struct doctor_report *r, int row)
{
	const struct doctor_row *d = &doctor_rows[row];
	const struct doctor_finding *x = &r->findings[row];
	const char *error = x->error != 0 ? strerrorname_np(x->error) : NULL;

	fprintf(f, "{\"id\":\"%s\",\"group\":\"%s\",\"need\":\"%s\",\"state\":\"%s\",", d->id,
	    doctor_group(row), need_names[d->need], states[x->state].json);
	if (error != NULL)
		fprintf(f, "\"error\":\"%s\",", error);
	else
		fputs("\"error\":null,", f);
	print_member(f, "title", d->title);
	putc(',', f);
	print_member(f, "purpose", d->purpose);
	putc(',', f);
	print_member(f, "detail", x->detail);
	putc(',', f);
	print_member(f, "remedy", doctor_remedy(r, row));
	putc('}', f);
}

static void
print_ids(FILE *f, const struct doctor_report *r, const char *profile, enum doctor_need need)
{
	const char *comma = "";

	for (int i = 0; i < DOCTOR_ROWS; i++) {
		if (doctor_rows[i].need != need || !doctor_is_gap(r, i, profile))
			continue;
		fprintf(f, "%s\"%s\"", comma, doctor_rows[i].id);
		comma = ",";
	}
}

static void
print_launch_json(FILE *f, const struct doctor_report *r, const struct doctor_launch *l)
{
	fprintf(f, "{\"name\":\"%s\",\"enforced\":%s,\"launched\":%s,", l->profile,
	    doctor_is_enforced(r, l) ? "true" : "false", l->launched ? "true" : "false");
	if (l->layer != LAYER_NONE)
		print_member(f, "layer", layer_name(l->layer));
	else
		fputs("\"layer\":null", f);
	putc(',', f);
	print_member(f, "message", l->message);
	fputs(",\"absent\":[", f);
	for (uint32_t i = 0, n = 0; i < LAYER_MAX; i++)
		if (l->absent & 1u << i)
			fprintf(f, "%s\"%s\"", n++ > 0 ? "," : "", layer_name(i));
	fputs("],\"because\":[", f);
	print_ids(f, r, l->profile, DOCTOR_NEEDED);
	fputs("],\"without\":[", f);
	print_ids(f, r, l->profile, DOCTOR_WANTED);
	fputs("]}", f);
}

void
doctor_print_json(FILE *f, const struct doctor_report *r)
{
	const struct doctor_launch *l = doctor_default(r);
	struct utsname u;

	if (uname(&u) < 0)
		memset(&u, 0, sizeof(u));
	putc('{', f);
	print_member(f, "kernel", u.release);
	putc(',', f);
	print_member(f, "machine", u.machine);
	fprintf(f, ",\"root\":%s,\"default\":\"" PROFILE_DEFAULT "\",\"enforced\":%s,",
	    r->is_root ? "true" : "false",
	    l != NULL && doctor_is_enforced(r, l) ? "true" : "false");
	fputs("\"rows\":[", f);
	for (int i = 0; i < DOCTOR_ROWS; i++) {
		if (i > 0)
			putc(',', f);
		print_row_json(f, r, i);
	}
	fputs("],\"profiles\":[", f);
	for (size_t i = 0; i < r->nlaunches; i++) {
		if (i > 0)
			putc(',', f);
		print_launch_json(f, r, &r->launches[i]);
	}
	fputs("]}\n", f);
}
