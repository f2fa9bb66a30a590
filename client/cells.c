#include "client/cells.h"

#include <string.h>

#include "client/text.h"

void
cells_end(struct cells *t)
{
	size_t n = t->ends.n / sizeof(size_t), begin = 0, width;

	if (n > 0)
		memcpy(&begin, t->ends.p + t->ends.n - sizeof(begin), sizeof(begin));
	width = t->text.n - begin;
	if (width > t->widths[n % t->columns])
		t->widths[n % t->columns] = width;
	buf_add(&t->ends, &t->text.n, sizeof(t->text.n));
}

void
cells_add_text(struct cells *t, bool has, struct slice s)
{
	if (has)
		text_escape_line(s, &t->text);
	else
		text_addf(&t->text, "-");
	cells_end(t);
}

void
cells_add_uint(struct cells *t, bool has, uint64_t n)
{
	if (has)
		text_addf(&t->text, "%llu", (unsigned long long)n);
	else
		text_addf(&t->text, "-");
	cells_end(t);
}

size_t
cells_rows(const struct cells *t)
{
	return t->ends.n / sizeof(size_t) / t->columns;
}

static void
render_cell(const struct cells *t, size_t column, const void *text, size_t n, struct buf *out)
{
	size_t width = strlen(t->heads[column]) > t->widths[column] ? strlen(t->heads[column])
								    : t->widths[column];

	buf_add(out, text, n);
	if (column == t->columns - 1) {
		text_addf(out, "\n");
		return;
	}
	for (; n < width + 2; n++)
		buf_add(out, " ", 1);
}

void
cells_render_head(const struct cells *t, struct buf *out)
{
	size_t i;

	for (i = 0; i < t->columns; i++)
		render_cell(t, i, t->heads[i], strlen(t->heads[i]), out);
}

void
cells_render_row(const struct cells *t, size_t row, struct buf *out)
{
	const uint8_t *ends = t->ends.p + row * t->columns * sizeof(size_t);
	size_t i, begin = 0, end;

	if (t->text.failed || t->ends.failed) {
		out->failed = true;
		return;
	}
	if (row > 0)
		memcpy(&begin, ends - sizeof(begin), sizeof(begin));
	for (i = 0; i < t->columns; i++, begin = end) {
		memcpy(&end, ends + i * sizeof(end), sizeof(end));
		render_cell(t, i, t->text.p + begin, end - begin, out);
	}
}

void
cells_finish(struct cells *t)
{
	buf_finish(&t->text);
	buf_finish(&t->ends);
}
