#include "common/options.h"

#include <string.h>

/* Columns of --help: the options, and what they do. */
#define USAGE_LEFT  28
#define USAGE_RIGHT (96 - 2 - USAGE_LEFT - 2)

/* As much of the text as a line of the second column holds, up to a space. */
static size_t
usage_line(const char *text)
{
	size_t n = strlen(text), last = USAGE_RIGHT;

	if (n <= USAGE_RIGHT)
		return n;
	while (last > 0 && text[last] != ' ')
		last--;
	return last > 0 ? last : n;
}

static void
usage_row(FILE *f, const char *left, const char *doc)
{
	size_t n = usage_line(doc);

	if (strlen(left) > USAGE_LEFT) {
		fprintf(f, "  %s\n", left);
		left = "";
	}
	fprintf(f, "  %-*s  %.*s\n", USAGE_LEFT, left, (int)n, doc);
	for (doc += n; *doc == ' '; doc += n) {
		n = usage_line(++doc);
		fprintf(f, "  %-*s  %.*s\n", USAGE_LEFT, "", (int)n, doc);
	}
}

void
options_usage(FILE *f, const char *program, enum command command)
{
	const struct option_desc *d;
	const struct command_desc *c;
	char left[128];

	for (c = command_descs; c->name != NULL; c++) {
		if (c->command != command)
			continue;
		fprintf(f, "usage: %s%s%s %s\n", program, *program != '\0' ? " " : "", c->name,
		    c->synopsis);
		fprintf(f, "%s\n\n", c->doc);
	}
	for (d = option_descs; d->name != NULL; d++) {
		if (!(d->commands & command))
			continue;
		snprintf(left, sizeof(left), "%c%c%s--%s%s%s", d->letter ? '-' : ' ',
		    d->letter ? d->letter : ' ', d->letter ? ", " : "  ", d->name,
		    d->metavar != NULL ? " " : "", d->metavar != NULL ? d->metavar : "");
		usage_row(f, left, d->doc);
	}
}
