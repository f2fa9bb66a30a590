#include "common/nearest.h"

#include <string.h>

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Changes that make `b` of `a`: the optimal string alignment, three rows at a time. */
static size_t
distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][NEAREST_MAX + 1], i, j;
	size_t *row = rows[0], *above = rows[1], *over = rows[2], *spare;

	for (j = 0; j <= nb; j++)
		row[j] = j;
	for (i = 1; i <= na; i++) {
		spare = over;
		over = above;
		above = row;
		row = spare;
		row[0] = i;
		for (j = 1; j <= nb; j++) {
			row[j] = least(above[j], row[j - 1]) + 1;
			row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], over[j - 2] + 1);
		}
	}
	return row[nb];
}

void
nearest_init(struct nearest *s, const char *typed, size_t n)
{
	/* Two letters may have one fault, five two. */
	*s = (struct nearest){ .typed = typed, .ntyped = n, .faults = (n + 1) / 3 + 1 };
}

void
nearest_offer(struct nearest *s, const char *word, size_t n)
{
	size_t faults;

	if (s->ntyped < 2 || s->ntyped > NEAREST_MAX || n > NEAREST_MAX)
		return;
	if (n > s->ntyped && memcmp(s->typed, word, s->ntyped) == 0)
		faults = 1;
	else
		faults = distance(s->typed, s->ntyped, word, n);
	if (faults >= s->faults || faults >= n)
		return;
	s->word = word;
	s->nword = n;
	s->faults = faults;
}
